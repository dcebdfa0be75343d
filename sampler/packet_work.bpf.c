// The CPU time of a host's packets for which no process, or the wrong one, is charged.
//
// An incoming packet is processed in a soft interrupt, on the processor where its sender ran: on
// one machine, the kernel charges the client's process for the server's receiving, and the server
// for the client's. So this measures the time from a packet's entry into the network stack to that
// of the next packet, or to the end of the interrupt, and records the network namespace of the
// packet's interface and the running process. For packets that come in otherwise, as from a TUN
// device, the process that wrote them is charged.
#include "sampler/packet_work.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <linux/bpf.h>

// The kernel's types, with the members that are read; libbpf finds their places.
#define KERNELS __attribute__((preserve_access_index))

struct ns_common {
    unsigned int inum;
} KERNELS;

struct net {
    struct ns_common ns;
} KERNELS;

typedef struct {
    struct net* net;
} KERNELS possible_net_t;

struct net_device {
    possible_net_t nd_net;
} KERNELS;

struct sk_buff {
    struct net_device* dev;
} KERNELS;

struct nsproxy {
    struct net* net_ns;
} KERNELS;

struct task_struct {
    struct nsproxy* nsproxy;
} KERNELS;

enum { kNetReceive = 3 }; // NET_RX_SOFTIRQ

/// Filled in by the loader.
const volatile struct PacketWorkSettings settings SEC(".rodata.settings");

struct Turn {
    __u64 since;     ///< 0: no packet is being processed
    __u32 network;   ///< of the packet's interface
    __u32 receiving; ///< within the soft interrupt
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct Turn);
} turns SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u64);
} uncharged SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 4096);
    __type(key, __u32);
    __type(value, __u64);
} elsewhere SEC(".maps");

static __always_inline struct Turn* turn_here(void) {
    const __u32 zero = 0;
    return bpf_map_lookup_elem(&turns, &zero);
}

static __always_inline void add_elsewhere(__u64 spent) {
    struct bpf_pidns_info ids = {};
    if (bpf_get_ns_current_pid_tgid(settings.device, settings.processes, &ids, sizeof ids) != 0) {
        return;
    }
    __u64* sum = bpf_map_lookup_elem(&elsewhere, &ids.tgid);
    if (sum) {
        __sync_fetch_and_add(sum, spent);
    } else {
        bpf_map_update_elem(&elsewhere, &ids.tgid, &spent, BPF_ANY);
    }
}

/// The previous packet is done.
static __always_inline void end(struct Turn* turn, __u64 now) {
    const __u32 zero = 0;
    const __u64 since = turn->since;
    turn->since = 0;
    if (since == 0) {
        return;
    }
    const struct task_struct* task = (const void*)bpf_get_current_task();
    const int charged = BPF_CORE_READ(task, nsproxy, net_ns, ns.inum) == settings.network;
    const int own = turn->network == settings.network;
    if (own && !charged) {
        __u64* sum = bpf_map_lookup_elem(&uncharged, &zero);
        if (sum) {
            *sum += now - since;
        }
    } else if (!own && charged) {
        add_elsewhere(now - since);
    }
}

SEC("raw_tp/netif_receive_skb") int packet_comes(struct bpf_raw_tracepoint_args* context) {
    const struct sk_buff* skb = (const struct sk_buff*)context->args[0];
    struct Turn* turn = turn_here();
    if (turn && turn->receiving) {
        const __u64 now = bpf_ktime_get_ns();
        end(turn, now);
        turn->network = BPF_CORE_READ(skb, dev, nd_net.net, ns.inum);
        turn->since = now;
    }
    return 0;
}

/// An interface, or a processor's backlog, has handed over what it had.
SEC("raw_tp/napi_poll") int interface_ends(void* context __attribute__((unused))) {
    struct Turn* turn = turn_here();
    if (turn) {
        end(turn, bpf_ktime_get_ns());
    }
    return 0;
}

SEC("raw_tp/softirq_entry") int interrupt_begins(struct bpf_raw_tracepoint_args* context) {
    struct Turn* turn = turn_here();
    if (turn) {
        turn->receiving = context->args[0] == kNetReceive;
    }
    return 0;
}

SEC("raw_tp/softirq_exit") int interrupt_ends(void* context __attribute__((unused))) {
    struct Turn* turn = turn_here();
    if (turn && turn->receiving) {
        turn->receiving = 0;
        end(turn, bpf_ktime_get_ns());
    }
    return 0;
}

char terms[] SEC("license") = "GPL";
