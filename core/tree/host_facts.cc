#include "core/tree/host_facts.hh"

#include "core/wire/replay.pb.h"

#include <fstream>
#include <string>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

namespace reprise::tree {
namespace {

std::string first_line(const char* path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    return line;
}

} // namespace

void describe_host(wire::Hello& hello) {
    hello.set_boot_id(first_line("/proc/sys/kernel/random/boot_id"));
    struct stat status{};
    if (stat("/proc/self/ns/time", &status) == 0) {
        hello.set_time_namespace(status.st_ino);
    }
    utsname name{};
    uname(&name);
    auto& facts = *hello.mutable_facts();
    facts["kernel"] = name.release;
    facts["machine"] = name.machine;
    facts["hostname"] = name.nodename;
    facts["processors"] = std::to_string(sysconf(_SC_NPROCESSORS_ONLN));
    facts["clocksource"] =
        first_line("/sys/devices/system/clocksource/clocksource0/current_clocksource");
}

bool same_clock(const wire::Hello& a, const wire::Hello& b) {
    return !a.boot_id().empty() && a.boot_id() == b.boot_id() &&
           a.time_namespace() == b.time_namespace();
}

} // namespace reprise::tree
