#include "core/base/host.hh"

#include <cstdint>
#include <fstream>
#include <string>
#include <sys/stat.h>

namespace reprise {

std::string first_line(const char* path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    return line;
}

std::string boot_id() { return first_line("/proc/sys/kernel/random/boot_id"); }

std::uint64_t time_namespace() {
    struct stat status{};
    return stat("/proc/self/ns/time", &status) == 0 ? status.st_ino : 0;
}

} // namespace reprise
