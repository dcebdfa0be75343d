#pragma once
// What the kernel tells of the host.

#include <cstdint>
#include <string>

namespace reprise {

/// A file's first line without its end; empty where it cannot be read.
std::string first_line(const char* path);

/// Another one after each start of the host.
std::string boot_id();

/// The clocks of processes with the same one and the same boot_id() agree; 0 where it is not known.
std::uint64_t time_namespace();

} // namespace reprise
