#pragma once
// The settings of the BPF programs that measure packets.

#include <linux/types.h>

struct PacketWorkSettings {
    __u64 device;    ///< of the file system of namespaces
    __u64 processes; ///< inode of this host's PID namespace
    __u32 network;   ///< inode of its network namespace
    __u32 unused;
};
