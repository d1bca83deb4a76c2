"""A small chart kit that writes inline SVG: scales, axes, lines, steps, areas, bands. Pure.

Colours and fonts come from CSS classes of the page (`c-<name>` sets `color`; shapes use `currentColor`),
so one drawing serves light and dark pages. Text is escaped here and nowhere else.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps a data range to pixels, linearly or by logarithm (then both ends must be positive)."""

    low: float
    high: float
    pixel_low: float
    pixel_high: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """The pixel of a value; values outside the range stay at its edge."""
        low, high, at = self.low, self.high, min(max(value, self.low), self.high)
        if self.log:
            low, high, at = math.log10(low), math.log10(high), math.log10(at)
        share = (at - low) / (high - low) if high > low else 0.0
        return self.pixel_low + share * (self.pixel_high - self.pixel_low)

    def ticks(self, count: int = 6) -> list[float]:
        """Round numbers within the range, about `count`; on a log scale 1, 2 and 5 of each decade."""
        return log_ticks(self.low, self.high) if self.log else linear_ticks(self.low, self.high, count)


def linear_ticks(low: float, high: float, count: int = 6) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten within [low, high]."""
    if high <= low:
        return [low]
    raw = (high - low) / max(1, count)
    magnitude = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * magnitude for factor in (1, 2, 5, 10) if factor * magnitude >= raw * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [index * step for index in range(first, last + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """1, 2, 5 times the powers of ten within [low, high]; only the powers over more than three decades."""
    factors = (1, 2, 5) if high / low < 1000 else (1,)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found = [factor * 10.0**decade for decade in decades for factor in factors]
    return [tick for tick in found if low * 0.999 <= tick <= high * 1.001]


def number(value: float) -> str:
    """A short label: 0.25, 3, 1,200."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


@dataclass(frozen=True, slots=True)
class Frame:
    """The plotting area inside a drawing, and what its axes say."""

    x: Scale
    y: Scale
    width: int
    height: int
    x_title: str = ""
    y_title: str = ""
    x_text: Callable[[float], str] = number
    y_text: Callable[[float], str] = number
    x_ticks: tuple[float, ...] = ()

    @property
    def sides(self) -> tuple[float, float]:
        """The left and the right end of the x axis in pixels, whichever way its values run."""
        ends = (self.x.pixel_low, self.x.pixel_high)
        return min(ends), max(ends)

    def at(self, point: Point) -> str:
        """A data point as "x,y" in pixels."""
        return f"{self.x(point[0]):.1f},{self.y(point[1]):.1f}"


LEFT, RIGHT, TOP, BOTTOM = 58, 16, 16, 42


def frame(
    x: tuple[float, float],
    y: tuple[float, float],
    *,
    width: int = 860,
    height: int = 260,
    x_title: str = "",
    y_title: str = "",
    y_log: bool = False,
    right: int = RIGHT,
) -> Frame:
    """A frame with the usual margins; `right` leaves room for labels at the ends of lines."""
    return Frame(
        Scale(x[0], x[1], LEFT, width - right),
        Scale(y[0], y[1], height - BOTTOM, TOP, y_log),
        width,
        height,
        x_title,
        y_title,
    )


def text(x: float, y: float, content: str, *, classes: str = "", anchor: str = "start") -> str:
    """A text at a pixel position."""
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{classes}" text-anchor="{anchor}">{escape(content)}</text>'


def axes(area: Frame) -> str:
    """Grid lines, tick labels and titles of both axes."""
    left, right = area.sides
    bottom, top = area.y.pixel_low, area.y.pixel_high
    parts = []
    for tick in area.y.ticks(5):
        y = area.y(tick)
        parts.append(f'<line class="grid" x1="{left:.1f}" x2="{right:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(text(left - 8, y + 4, area.y_text(tick), classes="tick", anchor="end"))
    for tick in area.x_ticks or area.x.ticks(9):
        x = area.x(tick)
        parts.append(f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="{bottom:.1f}" y2="{bottom + 4:.1f}"/>')
        parts.append(text(x, bottom + 18, area.x_text(tick), classes="tick", anchor="middle"))
    parts.append(f'<line class="axis" x1="{left:.1f}" x2="{right:.1f}" y1="{bottom:.1f}" y2="{bottom:.1f}"/>')
    parts.append(text((left + right) / 2, bottom + 36, area.x_title, classes="title", anchor="middle"))
    middle = (top + bottom) / 2
    parts.append(
        f'<text class="title" text-anchor="middle" transform="translate(14 {middle:.1f}) rotate(-90)">'
        f"{escape(area.y_title)}</text>"
    )
    return "".join(parts)


def line(area: Frame, points: Sequence[Point], name: str, *, dashed: bool = False, thin: bool = False) -> str:
    """A polyline in the colour of `name`; nothing for fewer than two points."""
    if len(points) < 2:
        return ""
    classes = f"line c-{name}" + (" dashed" if dashed else "") + (" thin" if thin else "")
    return f'<polyline class="{classes}" points="{" ".join(map(area.at, points))}"/>'


def steps(area: Frame, points: Sequence[Point], name: str, *, dashed: bool = False) -> str:
    """A line that keeps each value until the next point."""
    corners: list[Point] = []
    for point in points:
        if corners:
            corners.append((point[0], corners[-1][1]))
        corners.append(point)
    return line(area, corners, name, dashed=dashed)


def filled(area: Frame, low: Sequence[Point], high: Sequence[Point], name: str) -> str:
    """The area between two lines over the same x values."""
    if len(high) < 2:
        return ""
    outline = [*high, *reversed(low)]
    return f'<polygon class="area c-{name}" points="{" ".join(map(area.at, outline))}"/>'


def band(area: Frame, began: float, ended: float, name: str, label: str = "") -> str:
    """A shaded stretch of the x axis with a label at its top."""
    left, right = area.x(began), area.x(ended)
    top, bottom = area.y.pixel_high, area.y.pixel_low
    shape = (
        f'<rect class="band c-{name}" x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" '
        f'height="{bottom - top:.1f}"/>'
    )
    if not label or right - left < 8 * len(label):
        return shape
    return shape + text((left + right) / 2, top + 13, label, classes=f"label c-{name}", anchor="middle")


def dots(area: Frame, points: Sequence[Point], name: str, radius: float = 3.5) -> str:
    """A circle at each point."""
    return "".join(
        f'<circle class="dot c-{name}" cx="{area.x(x):.1f}" cy="{area.y(y):.1f}" r="{radius}"/>' for x, y in points
    )


def upright(area: Frame, x: float, name: str, label: str, *, lower: bool = False) -> str:
    """A vertical line with a label beside its top, or a line of text lower."""
    at, top, bottom = area.x(x), area.y.pixel_high, area.y.pixel_low
    return (
        f'<line class="line thin dashed c-{name}" x1="{at:.1f}" x2="{at:.1f}" y1="{top:.1f}" y2="{bottom:.1f}"/>'
        + text(at + 6, top + (28 if lower else 12), label, classes=f"label c-{name}")
    )


def level(area: Frame, y: float, name: str, label: str, *, at_end: bool = True) -> str:
    """A horizontal dashed line across the frame with a label above one of its ends."""
    (left, right), at = area.sides, area.y(y)
    place = (right - 4, "end") if at_end else (left + 4, "start")
    return (
        f'<line class="line thin dashed c-{name}" x1="{left:.1f}" x2="{right:.1f}" y1="{at:.1f}" y2="{at:.1f}"/>'
        + text(place[0], at - 5, label, classes=f"label c-{name}", anchor=place[1])
    )


def drawing(area: Frame, layers: Sequence[str], description: str) -> str:
    """The SVG element; scales with the page, and is described for those who do not see it."""
    return (
        f'<svg viewBox="0 0 {area.width} {area.height}" role="img" aria-label="{escape(description, quote=True)}">'
        + axes(area)
        + "".join(layers)
        + "</svg>"
    )
