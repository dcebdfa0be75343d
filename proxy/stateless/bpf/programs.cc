#include "proxy/stateless/bpf/programs.hh"

#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "proxy/stateless/bpf/shared.h"
#include "stateless_bpf.hh"

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <fstream>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <vector>

namespace reprise::proxy {

namespace {

constexpr std::uint32_t kBatch = 256;

/// libbpf would write its own lines to standard error, where ours are key=value.
int be_silent(enum libbpf_print_level /*level*/, const char* /*format*/, va_list /*values*/) {
    return 0;
}

bpf_object* opened() {
    libbpf_set_print(be_silent);
    const auto program = bpf::stateless_bpf();
    if (program.empty()) {
        throw SystemError("use --front bpf, which a build without clang-19 lacks", EOPNOTSUPP);
    }
    bpf_object_open_opts options{};
    options.sz = sizeof options;
    options.object_name = "stateless";
    bpf_object* const object = bpf_object__open_mem(program.data(), program.size(), &options);
    if (object == nullptr) {
        throw SystemError("open the BPF programs");
    }
    return object;
}

bpf_map* find_map(bpf_object* object, const char* name) {
    bpf_map* const map = bpf_object__find_map_by_name(object, name);
    if (map == nullptr) {
        throw SystemError(fmt::format("find {} in the BPF programs", name));
    }
    return map;
}

int find_program(bpf_object* object, const char* name) {
    return bpf_program__fd(bpf_object__find_program_by_name(object, name));
}

StatelessState* map_state(int fd) {
    void* const memory =
        mmap(nullptr, sizeof(StatelessState), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) {
        throw SystemError("map the state of the BPF programs");
    }
    return static_cast<StatelessState*>(memory);
}

} // namespace

Programs::~Programs() {
    if (state_ != nullptr) {
        munmap(state_, sizeof *state_);
    }
}

void Programs::Close::operator()(bpf_object* object) const { bpf_object__close(object); }

Programs::Programs(const StatelessSettings& settings, std::uint32_t entries) : object_(opened()) {
    check(bpf_map__set_max_entries(find_map(object_.get(), "flows"), entries),
          "size the map of queries in flight");
    check(bpf_map__set_initial_value(find_map(object_.get(), ".rodata.settings"), &settings,
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
    state_ = map_state(bpf_map__fd(find_map(object_.get(), ".bss")));
    in_ = find_program(object_.get(), "stateless_in");
    out_ = find_program(object_.get(), "stateless_out");
    flows_ = bpf_map__fd(find_map(object_.get(), "flows"));
    counts_ = bpf_map__fd(find_map(object_.get(), "counts"));
    gone_ = bpf_map__fd(find_map(object_.get(), "gone"));
    addresses_ = bpf_map__fd(find_map(object_.get(), "addresses"));
}

bool Programs::readable() const {
    const std::uint32_t first = 0;
    std::vector<std::uint64_t> each(static_cast<size_t>(libbpf_num_possible_cpus()));
    return bpf_map_lookup_elem(counts_, &first, each.data()) == 0;
}

std::array<std::uint64_t, kCounts> Programs::counts() const {
    std::array<std::uint64_t, kCounts> sums{};
    std::vector<std::uint64_t> each(static_cast<size_t>(libbpf_num_possible_cpus()));
    for (std::uint32_t which = 0; which < kCounts; ++which) {
        if (bpf_map_lookup_elem(counts_, &which, each.data()) == 0) {
            for (const std::uint64_t one : each) {
                sums[which] += one;
            }
        }
    }
    return sums;
}

void Programs::remove_if_old(const StatelessFlow& flow,
                             const std::function<bool(const StatelessEntry&)>& is_old,
                             std::uint64_t& waited) {
    StatelessEntry now{};
    if (bpf_map_lookup_and_delete_elem(flows_, &flow, &now) != 0) {
        return; // answered in the meantime
    }
    if (!is_old(now) && bpf_map_update_elem(flows_, &flow, &now, BPF_NOEXIST) == 0) {
        return; // sent again in the meantime
    }
    std::atomic_ref(state_->in_flight).fetch_sub(1);
    std::atomic_ref(state_->lived).fetch_add(static_cast<__u64>(read_clock(CLOCK_MONOTONIC)));
    waited += (now.bits & (kPromoted | kAnswered)) == 0 ? 1 : 0;
    bpf_map_update_elem(gone_, &flow, &now.id, BPF_ANY);
    state_->some_gone = 1;
}

std::uint64_t Programs::expire(const std::function<bool(const StatelessEntry&)>& is_old) {
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
            if (is_old(entries[i])) {
                remove_if_old(flows[i], is_old, waited);
            }
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
