#include "proxy/stateless/bpf/programs.hh"

#include "core/base/bpf.hh"
#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "core/base/fd.hh"
#include "proxy/stateless/bpf/shared.h"
#include "proxy/stateless/common/counts.h"
#include "stateless_bpf.hh"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <fstream>
#include <functional>
#include <linux/types.h>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::proxy {

namespace {

constexpr std::uint32_t kBatch = 256;

int find_program(bpf_object* object, const char* name) {
    return bpf_program__fd(bpf_object__find_program_by_name(object, name));
}

/// Reads the clock anew for each, so that no stamp is of a later moment.
bool is_older(const StatelessEntry& entry, Nanoseconds timeout) {
    const Nanoseconds clock = read_clock(CLOCK_MONOTONIC_COARSE);
    const auto age = static_cast<std::uint16_t>((clock >> kStampShift) - entry.stamp);
    return (Nanoseconds{age} << kStampShift) > timeout;
}

} // namespace

Programs::Programs(const StatelessSettings& settings, std::uint32_t entries)
    : object_(open_bpf(bpf::stateless_bpf(), "stateless")) {
    check(bpf_map__set_max_entries(bpf_map_of(object_, "flows"), entries),
          "size the map of queries in flight");
    check(bpf_map__set_initial_value(bpf_map_of(object_, ".rodata.settings"), &settings,
                                     sizeof settings),
          "give the settings to the BPF programs");
    const int error = bpf_object__load(object_.get());
    if (error == -EPERM) {
        throw Error("BPF programs may not be loaded by this user; run as root, or with the "
                    "capabilities CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON");
    }
    if (error != 0) {
        throw SystemError("load the BPF programs", -error);
    }
    state_ = Mapping(sizeof(StatelessState), bpf_map__fd(bpf_map_of(object_, ".bss")), 0,
                     "map the state of the BPF programs");
    in_ = find_program(object_.get(), "stateless_in");
    out_ = find_program(object_.get(), "stateless_out");
    flows_ = bpf_map__fd(bpf_map_of(object_, "flows"));
    counts_ = bpf_map__fd(bpf_map_of(object_, "counts"));
    gone_ = bpf_map__fd(bpf_map_of(object_, "gone"));
    addresses_ = bpf_map__fd(bpf_map_of(object_, "addresses"));
}

std::optional<StatelessCounts> Programs::counts() const {
    using Words = std::array<__u64, sizeof(StatelessCounts) / sizeof(__u64)>;
    const std::uint32_t only = 0;
    std::vector<Words> each(static_cast<size_t>(libbpf_num_possible_cpus()));
    if (bpf_map_lookup_elem(counts_, &only, each.data()) != 0) {
        return std::nullopt;
    }
    Words sums{};
    for (const Words& one : each) {
        std::ranges::transform(sums, one, sums.begin(), std::plus{});
    }
    return std::bit_cast<StatelessCounts>(sums);
}

/// Whether one was removed that waited for a reply.
bool Programs::remove_if_old(const StatelessFlow& flow, Nanoseconds timeout) {
    StatelessEntry now{};
    if (bpf_map_lookup_and_delete_elem(flows_, &flow, &now) != 0) {
        return false; // answered in the meantime
    }
    if (!is_older(now, timeout) && bpf_map_update_elem(flows_, &flow, &now, BPF_NOEXIST) == 0) {
        return false; // sent again in the meantime
    }
    std::atomic_ref(state().in_flight).fetch_sub(1);
    std::atomic_ref(state().lived).fetch_add(static_cast<__u64>(read_clock(CLOCK_MONOTONIC)));
    bpf_map_update_elem(gone_, &flow, &now.id, BPF_ANY);
    state().some_gone = 1;
    return (now.bits & (kPromoted | kAnswered)) == 0;
}

std::uint64_t Programs::expire(Nanoseconds timeout) {
    std::array<StatelessFlow, kBatch> flows{};
    std::array<StatelessEntry, kBatch> entries{};
    std::uint64_t waited = 0;
    std::uint32_t at = 0;
    bool first = true;
    for (int error = 0; error == 0;) {
        std::uint32_t count = kBatch;
        error = bpf_map_lookup_batch(flows_, first ? nullptr : &at, &at, flows.data(),
                                     entries.data(), &count, nullptr);
        first = false;
        if (error != 0 && error != -ENOENT) {
            break; // a bucket with more than a batch: the next time
        }
        for (std::uint32_t i = 0; i < count; ++i) {
            waited += is_older(entries[i], timeout) && remove_if_old(flows[i], timeout) ? 1U : 0U;
        }
    }
    return waited;
}

void Programs::serve(const std::set<LocalAddress>& addresses) {
    const std::uint8_t yes = 1;
    for (const LocalAddress& one : addresses) {
        if (!served_.contains(one)) {
            bpf_map_update_elem(addresses_, one.data(), &yes, BPF_ANY);
        }
    }
    for (const LocalAddress& one : served_) {
        if (!addresses.contains(one)) {
            bpf_map_delete_elem(addresses_, one.data());
        }
    }
    served_ = addresses;
}

std::uint64_t Programs::memory() const {
    std::ifstream in(fmt::format("/proc/self/fdinfo/{}", flows_));
    for (std::string line; std::getline(in, line);) {
        constexpr std::string_view kName = "memlock:";
        if (line.starts_with(kName)) {
            return std::stoull(line.substr(kName.size()));
        }
    }
    return 0;
}

} // namespace reprise::proxy
