"""The kernel's files: where they are, what they mean in cgroup v1 and v2, how to write them so that it can be undone.

Every root (/proc, /sys/fs/cgroup, /sys/devices) is a parameter. Nothing above this package opens a kernel file.
"""
