#include "sampler/packet_work.hh"

#include "packet_work_bpf.hh"
#include "sampler/packet_work.h"
#include "sampler/process_tree.hh"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <sys/stat.h>
#include <vector>

namespace reprise::sampler {

namespace {

constexpr double kSecondNs = 1e9;

int be_silent(enum libbpf_print_level /*level*/, const char* /*format*/, va_list /*values*/) {
    return 0;
}

} // namespace

void PacketWork::Close::operator()(bpf_object* object) const { bpf_object__close(object); }

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

bool PacketWork::load() {
    libbpf_set_print(be_silent);
    const auto program = bpf::packet_work_bpf();
    struct stat network{};
    struct stat processes{};
    if (program.empty() || ::stat("/proc/self/ns/net", &network) != 0 ||
        ::stat("/proc/self/ns/pid", &processes) != 0) {
        return false;
    }
    const PacketWorkSettings settings{.device = processes.st_dev,
                                      .processes = processes.st_ino,
                                      .network = static_cast<std::uint32_t>(network.st_ino),
                                      .unused = 0};
    bpf_object_open_opts options{};
    options.sz = sizeof options;
    options.object_name = "packet_work";
    object_.reset(bpf_object__open_mem(program.data(), program.size(), &options));
    if (!object_ ||
        bpf_map__set_initial_value(bpf_object__find_map_by_name(object_.get(), ".rodata.settings"),
                                   &settings, sizeof settings) != 0 ||
        bpf_object__load(object_.get()) != 0) {
        return false;
    }
    uncharged_ = bpf_object__find_map_fd_by_name(object_.get(), "uncharged");
    elsewhere_ = bpf_object__find_map_fd_by_name(object_.get(), "elsewhere");
    return true;
}

double PacketWork::uncharged_s() const {
    if (!works()) {
        return 0;
    }
    const std::uint32_t zero = 0;
    std::vector<std::uint64_t> each(static_cast<size_t>(libbpf_num_possible_cpus()));
    std::uint64_t sum = 0;
    if (bpf_map_lookup_elem(uncharged_, &zero, each.data()) == 0) {
        for (const std::uint64_t one : each) {
            sum += one;
        }
    }
    return static_cast<double>(sum) / kSecondNs;
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
    return static_cast<double>(sum) / kSecondNs;
}

} // namespace reprise::sampler
