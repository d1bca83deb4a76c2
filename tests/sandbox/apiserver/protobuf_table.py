"""Makes sandbox/apiserver/wire/fields.yaml from the Go sources of k8s.io/api and k8s.io/apimachinery.

python tests/sandbox/apiserver/protobuf_table.py API_FOLDER APIMACHINERY_FOLDER > sandbox/apiserver/wire/fields.yaml
"""

import re
import sys
from dataclasses import dataclass
from pathlib import Path

GROUPS = (
    "admissionregistration", "apps", "authentication", "authorization", "autoscaling", "batch", "coordination",
    "core", "discovery", "events", "networking", "policy", "rbac", "scheduling", "storage",
)  # fmt: skip
MACHINERY = ("pkg/apis/meta/v1", "pkg/runtime", "pkg/api/resource", "pkg/util/intstr")
# Messages whose JSON form is not their members'.
SPECIAL = {
    "api.resource.Quantity": "quantity",
    "util.intstr.IntOrString": "int-or-string",
    "apis.meta.v1.Time": "time",
    "apis.meta.v1.MicroTime": "micro-time",
    "apis.meta.v1.Duration": "duration",
    "apis.meta.v1.FieldsV1": "raw-json",
    "runtime.RawExtension": "raw-json",
}
LISTS = ("ExtraValue", "Verbs")  # a message of `items` that is a JSON list


@dataclass
class Member:
    number: int
    name: str
    type: str
    form: str = ""  # "[]" repeated, "{}" map


def messages(proto: str) -> dict[str, list[Member]]:
    """Messages of a .proto file by full name, with members typed by full name."""
    package = re.search(r"^package ([\w.]+);", proto, re.M)
    assert package is not None
    here = package[1]
    found: dict[str, list[Member]] = {}
    for match in re.finditer(r"^message (\w+) \{\n(.*?)^\}", proto, re.M | re.S):
        members = []
        for line in match[2].splitlines():
            text = line.strip()
            plain = re.fullmatch(r"(optional|repeated) (\.?[\w.]+) (\w+) = (\d+)(?: \[.*\])?;", text)
            mapped = re.fullmatch(r"map<string, (\.?[\w.]+)> (\w+) = (\d+);", text)
            if plain:
                form = "[]" if plain[1] == "repeated" else ""
                members.append(Member(int(plain[4]), plain[3], plain[2], form))
            elif mapped:
                members.append(Member(int(mapped[3]), mapped[2], mapped[1], "{}"))
        for member in members:
            if member.type.startswith("."):
                member.type = member.type[1:]
            elif member.type not in ("string", "bool", "int32", "int64", "bytes", "double", "uint32"):
                member.type = f"{here}.{member.type}"
        found[f"{here}.{match[1]}"] = members
    return found


def tags(source: str) -> dict[tuple[str, int], tuple[str, bool, bool]]:
    """(struct, field number) -> JSON name, whether it is inlined, whether zero values are left out."""
    found = {}
    for match in re.finditer(r"^type (\w+) struct \{\n(.*?)^\}", source, re.M | re.S):
        for line in match[2].splitlines():
            field = re.match(r"^\s*(?:\w+\s+)?(\S+)\s+`([^`]*)`", line)
            if field is None:
                continue
            number = re.search(r'protobuf:"\w+,(\d+),', field[2])
            json = re.search(r'json:"([^",]*)((?:,\w+)*)"', field[2])
            if number and json and json[1] != "-":
                pointer = field[1].startswith("*")
                found[match[1], int(number[1])] = (json[1], not json[1], not pointer and "omitempty" in json[2])
    return found


def short(name: str) -> str:
    return name.removeprefix("k8s.io.api.").removeprefix("k8s.io.apimachinery.pkg.")


def spelled(member: Member, struct: str, known: dict[tuple[str, int], tuple[str, bool, bool]]) -> str:
    name, inline, optional = known[struct, member.number]
    kind = short(member.type)
    kind = SPECIAL.get(kind, kind)
    if kind.rsplit(".", 1)[-1] in LISTS:
        kind = "list-message"
    mark = "<" if inline else "?" if optional else ""
    return f"{name or member.name} {mark}{member.form}{kind}"


def table(api: Path, machinery: Path) -> dict[str, dict[int, str]]:
    """message -> field number -> spelled member."""
    result: dict[str, dict[int, str]] = {}
    folders = [api / group / "v1" for group in GROUPS] + [machinery / folder for folder in MACHINERY]
    for folder in folders:
        known: dict[tuple[str, int], tuple[str, bool, bool]] = {}
        for file in folder.glob("*.go"):
            if not file.name.startswith("generated") and not file.name.endswith("_test.go"):
                known |= tags(file.read_text())
        for full, members in messages((folder / "generated.proto").read_text()).items():
            struct = full.rsplit(".", 1)[-1]
            if not struct.endswith("List") and short(full) not in SPECIAL:
                spelled_members = {}
                for member in members:
                    if (struct, member.number) in known:
                        spelled_members[member.number] = spelled(member, struct, known)
                    else:
                        print(f"{full}.{member.name}: no such Go member, left out", file=sys.stderr)
                result[short(full)] = spelled_members
    return result


def main(api: str, machinery: str) -> None:
    print("# Field numbers of Kubernetes' protobuf messages, made by tests/sandbox/apiserver/protobuf_table.py.")
    print("# number: JSON name, then the type: [] repeated, {} map, < inlined, ? left out when zero.")
    for message, members in sorted(table(Path(api), Path(machinery)).items()):
        if members:
            print(f"{message}:")
            for number, text in sorted(members.items()):
                print(f"  {number}: {text!r}" if text[0] in "[{?<" else f"  {number}: {text}")


if __name__ == "__main__":
    main(*sys.argv[1:])
