#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

SEC("xdp") int receive(struct xdp_md* context) {
    (void)context;
    return XDP_PASS;
}

char terms[] SEC("license") = "GPL";
