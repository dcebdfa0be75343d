#pragma once
// Fuzz targets of the forms that hold queries: what is read and written again is read the same.

#include "core/trace/testing/forms.hh"

#include <cstdint>
#include <cstdlib>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

namespace reprise::trace::test {

/// What is read of a file in memory.
inline ReadAll read_memory(const std::string& content) {
    const int file = memfd_create("fuzz", MFD_CLOEXEC);
    if (file < 0 ||
        write(file, content.data(), content.size()) != static_cast<ssize_t>(content.size())) {
        std::abort();
    }
    ReadAll out = read_file("/proc/self/fd/" + std::to_string(file));
    close(file);
    return out;
}

/// Reads `content`; what was good is read the same once it was written as text and as stream.
inline void fuzz_form(const std::string& content) {
    const ReadAll read = read_memory(content);
    if (read.queries.empty()) {
        return;
    }
    const ReadAll text = read_memory(as_text(read.queries));
    const ReadAll stream = read_memory(as_stream(read.queries));
    if (!(text.queries == read.queries) || !(stream.queries == read.queries) ||
        !text.trouble.empty() || !stream.trouble.empty()) {
        std::abort();
    }
}

} // namespace reprise::trace::test
