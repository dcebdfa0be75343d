#pragma once
// BPF object files, as CMake embeds them (cmake/RepriseBpf.cmake). Whoever includes this links
// libbpf.

#include "core/base/error.hh"

#include <fmt/format.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

namespace reprise {

struct BpfDeleter {
    void operator()(bpf_object* object) const { bpf_object__close(object); }
};

using BpfObject = std::unique_ptr<bpf_object, BpfDeleter>;

/// Opens an object file, to be loaded, under a name. Throws SystemError, with EOPNOTSUPP where it
/// is empty.
inline BpfObject open_bpf(std::span<const std::uint8_t> file, const char* name) {
    if (file.empty()) {
        throw SystemError("use BPF, which a build without clang-19 lacks (apt-get install "
                          "clang-19, and build again)",
                          EOPNOTSUPP);
    }
    // libbpf would write its own lines to standard error, where ours are key=value.
    libbpf_set_print([](libbpf_print_level, const char*, va_list) { return 0; });
    bpf_object_open_opts options{};
    options.sz = sizeof options;
    options.object_name = name;
    BpfObject object(bpf_object__open_mem(file.data(), file.size(), &options));
    if (!object) {
        throw SystemError("open a BPF program");
    }
    return object;
}

/// Throws SystemError where it has no such map.
inline bpf_map* bpf_map_of(const BpfObject& object, const char* name) {
    bpf_map* const map = bpf_object__find_map_by_name(object.get(), name);
    if (map == nullptr) {
        throw SystemError(fmt::format("find {} in a BPF program", name));
    }
    return map;
}

/// A count of all processors; 0 where it may not be read.
inline std::uint64_t bpf_count(int map, std::uint32_t index) {
    std::vector<std::uint64_t> each(static_cast<std::size_t>(libbpf_num_possible_cpus()));
    return bpf_map_lookup_elem(map, &index, each.data()) == 0
               ? std::accumulate(each.begin(), each.end(), std::uint64_t{0})
               : 0;
}

} // namespace reprise
