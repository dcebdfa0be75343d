#include "sampler/packet_work.h"

#include "core/base/bpf.hh"
#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "packet_work_bpf.hh"
#include "sampler/host_counters.hh"
#include "sampler/sampler.hh"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <cstdint>
#include <sys/stat.h>
#include <vector>

namespace reprise::sampler {

PacketWork::PacketWork(bool wanted) {
    if (!wanted || !load()) {
        return;
    }
    bpf_program* program = nullptr;
    bpf_object__for_each_program(program, object_.get()) {
        bpf_link* const link = bpf_program__attach(program);
        if (link == nullptr) { // a sum of some of them would be wrong
            detach();
            return;
        }
        links_.push_back(link);
    }
}

PacketWork::~PacketWork() { detach(); }

void PacketWork::detach() {
    for (bpf_link* const link : links_) {
        bpf_link__destroy(link);
    }
    links_.clear();
}

bool PacketWork::load() try {
    struct stat network{};
    struct stat processes{};
    if (::stat("/proc/self/ns/net", &network) != 0 ||
        ::stat("/proc/self/ns/pid", &processes) != 0) {
        return false;
    }
    const PacketWorkSettings settings{.device = processes.st_dev,
                                      .processes = processes.st_ino,
                                      .network = static_cast<std::uint32_t>(network.st_ino),
                                      .unused = 0};
    object_ = open_bpf(bpf::packet_work_bpf(), "packet_work");
    if (bpf_map__set_initial_value(bpf_map_of(object_, ".rodata.settings"), &settings,
                                   sizeof settings) != 0 ||
        bpf_object__load(object_.get()) != 0) {
        return false;
    }
    uncharged_ = bpf_map__fd(bpf_map_of(object_, "uncharged"));
    elsewhere_ = bpf_map__fd(bpf_map_of(object_, "elsewhere"));
    return true;
} catch (const SystemError&) {

    return false;
}

double PacketWork::uncharged_s() const {
    return works() ? static_cast<double>(bpf_count(uncharged_, 0)) / double{kSecond} : 0;
}

double PacketWork::elsewhere_s(const std::vector<Pid>& pids) const {
    std::uint64_t sum = 0;
    for (const Pid pid : pids) {
        const auto key = static_cast<std::uint32_t>(pid);
        std::uint64_t one = 0;
        if (works() && bpf_map_lookup_elem(elsewhere_, &key, &one) == 0) {
            sum += one;
        }
    }
    return static_cast<double>(sum) / double{kSecond};
}

} // namespace reprise::sampler
