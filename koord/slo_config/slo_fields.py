"""The fields of the NodeSLO blocks, with the ranges of the CRD, and the defaults that the manager puts in.

A range here is one the API server enforces on NodeSLO, so that a value outside it is refused once, when the
configuration is read, and not once per node when it is written.
"""

from typing import Final

from koord.slo_config.schema import INT32_MAX, Fragment, ListOf, MapOf, Record, Scalar, Schema

_BOOL = Scalar("bool")
_INT = Scalar("int")
_INT32 = Scalar("int", -INT32_MAX - 1, INT32_MAX)
_TEXT = Scalar("string", empty_is_absent=True)
_PERCENT = Scalar("int", 0, 100)
_NOT_NEGATIVE = Scalar("int", 0)
_AT_LEAST_ONE = Scalar("int", 1)

THRESHOLD: Final = Record(
    {
        "enable": _BOOL,
        "cpuSuppressThresholdPercent": _PERCENT,
        "cpuSuppressMinPercent": _PERCENT,
        "cpuSuppressPolicy": _TEXT,
        "memoryEvictThresholdPercent": _PERCENT,
        "memoryEvictLowerPercent": _PERCENT,
        "memoryAllocatableEvictThresholdPercent": _NOT_NEGATIVE,
        "memoryAllocatableEvictLowerPercent": _NOT_NEGATIVE,
        "cpuEvictBESatisfactionUpperPercent": _INT,
        "cpuEvictBESatisfactionLowerPercent": _INT,
        "cpuEvictBEUsageThresholdPercent": _INT,
        "cpuEvictTimeWindowSeconds": _INT,
        "cpuEvictThresholdPercent": _PERCENT,
        "cpuEvictLowerPercent": _PERCENT,
        "cpuAllocatableEvictThresholdPercent": _NOT_NEGATIVE,
        "cpuAllocatableEvictLowerPercent": _NOT_NEGATIVE,
        "cpuEvictPolicy": _TEXT,
        "evictEnabledPriorityThreshold": _INT32,
        "allocatableEvictPriorityThreshold": _INT32,
    }
)
THRESHOLD_DEFAULTS: Final[Fragment] = {
    "enable": False,
    "cpuSuppressThresholdPercent": 65,
    "cpuSuppressPolicy": "cpuset",
    "memoryEvictThresholdPercent": 70,
    "cpuEvictPolicy": "evictByRealLimit",
}

BURST: Final = Record(
    {
        "policy": _TEXT,
        "cpuBurstPercent": Scalar("int", 0, 10000),
        "cfsQuotaBurstPercent": _INT,
        "cfsQuotaBurstPeriodSeconds": _INT,
        "sharePoolThresholdPercent": _INT,
    }
)
BURST_DEFAULTS: Final[Fragment] = {
    "policy": "none",
    "cpuBurstPercent": 1000,
    "cfsQuotaBurstPercent": 300,
    "cfsQuotaBurstPeriodSeconds": -1,
    "sharePoolThresholdPercent": 50,
}

SYSTEM: Final = Record(
    {
        "minFreeKbytesFactor": _INT,
        "watermarkScaleFactor": _INT,
        "memcgReapBackGround": _INT,
        "schedGroupIdentityEnabled": _INT,
        "schedIdleSaverWmark": _INT,
        "schedFeatures": MapOf(_BOOL),
        "pageCacheLimitEnabled": _INT,
        "totalNetworkBandwidth": Scalar("quantity"),
    }
)
SYSTEM_DEFAULTS: Final[Fragment] = {"totalNetworkBandwidth": "0"}

_IO_CONFIG = Record(
    {
        "readIOPS": _NOT_NEGATIVE,
        "writeIOPS": _NOT_NEGATIVE,
        "readBPS": _NOT_NEGATIVE,
        "writeBPS": _NOT_NEGATIVE,
        "ioWeightPercent": Scalar("int", 1, 100),
        "readLatency": _NOT_NEGATIVE,
        "writeLatency": _NOT_NEGATIVE,
        "readLatencyPercent": _PERCENT,
        "writeLatencyPercent": _PERCENT,
        "enableUserModel": _BOOL,
        "modelReadBPS": _AT_LEAST_ONE,
        "modelWriteBPS": _AT_LEAST_ONE,
        "modelReadSeqIOPS": _AT_LEAST_ONE,
        "modelWriteSeqIOPS": _AT_LEAST_ONE,
        "modelReadRandIOPS": _AT_LEAST_ONE,
        "modelWriteRandIOPS": _AT_LEAST_ONE,
    }
)
_BLKIO = Record({"enable": _BOOL, "blocks": ListOf(Record({"name": _TEXT, "type": _TEXT, "ioCfg": _IO_CONFIG}))})
_CPU_QOS: dict[str, Schema] = {
    "enable": _BOOL,
    "groupIdentity": _INT,
    "schedIdle": _INT,
    "coreExpeller": _BOOL,
}
_MEMORY_QOS: dict[str, Schema] = {
    "enable": _BOOL,
    "minLimitPercent": _NOT_NEGATIVE,
    "lowLimitPercent": _NOT_NEGATIVE,
    "throttlingPercent": _NOT_NEGATIVE,
    "wmarkRatio": _PERCENT,
    "wmarkScalePermill": Scalar("int", 1, 1000),
    "wmarkMinAdj": Scalar("int", -25, 50),
    "priorityEnable": _INT,
    "priority": _INT,
    "oomKillGroup": _INT,
    "pageCacheEnable": _BOOL,
    "pageCacheLimitPercent": _PERCENT,
    "pageCacheLimitSize": _INT,
    "pageCacheReclaimSync": _BOOL,
}
_RESCTRL_QOS: dict[str, Schema] = {
    "enable": _BOOL,
    "catRangeStartPercent": _PERCENT,
    "catRangeEndPercent": _PERCENT,
    "mbaPercent": _PERCENT,
}
_NETWORK_QOS: dict[str, Schema] = {
    "enable": _BOOL,
    "ingressRequest": Scalar("int-or-string"),
    "ingressLimit": Scalar("int-or-string"),
    "egressRequest": Scalar("int-or-string"),
    "egressLimit": Scalar("int-or-string"),
}
_CLASS = Record(
    {
        "cpuQOS": Record(_CPU_QOS),
        "memoryQOS": Record(_MEMORY_QOS),
        "blkioQOS": _BLKIO,
        "resctrlQOS": Record(_RESCTRL_QOS),
        "networkQOS": Record(_NETWORK_QOS),
    }
)
QOS: Final = Record(
    {
        "policies": Record({"cpuPolicy": _TEXT, "netQOSPolicy": _TEXT}),
        "lsrClass": _CLASS,
        "lsClass": _CLASS,
        "beClass": _CLASS,
        "systemClass": _CLASS,
        "cgroupRoot": _CLASS,
    }
)
QOS_DEFAULTS: Final[Fragment] = {}

HOST_APPLICATION: Final = Record(
    {
        "name": _TEXT,
        "priority": _TEXT,
        "qos": _TEXT,
        "cgroupPath": Record({"base": _TEXT, "parentDir": _TEXT, "relativePath": _TEXT}),
        "strategy": Record({}),
    }
)
