#pragma once
// Readers take paths: a fuzz target's bytes as a file in memory.

#include "core/trace/testing/reader.hh"
#include "core/wire/query.hh"

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <unistd.h>

namespace reprise::trace::test {

/// Reads the bytes as a trace and touches every byte handed out. `most`: messages beyond which
/// something is wrong.
inline void fuzz_reader(const std::uint8_t* data, size_t size, std::uint64_t most) {
    const int file = memfd_create("fuzz", MFD_CLOEXEC);
    if (file < 0 || write(file, data, size) != static_cast<ssize_t>(size)) {
        std::abort();
    }
    try {
        Reader reader("/proc/self/fd/" + std::to_string(file));
        std::uint64_t messages = 0;
        std::uint64_t sum = 0;
        for (Query query; reader.next(query);) {
            for (const std::uint8_t byte : query.message) {
                sum += byte;
            }
            if (query.message.size() < 12 || query.message.size() > 65'535 || sum == ~0ULL ||
                ++messages > most || query.source.address.family == 0 ||
                query.destination.address.family == 0) {
                std::abort();
            }
        }
    } catch (const TraceError& error) {
        if (std::string_view(error.what()).empty()) { // refused without a word
            std::abort();
        }
    }
    close(file);
}

} // namespace reprise::trace::test
