#include "core/tree/host_facts.hh"

#include "core/base/host.hh"
#include "core/wire/replay.pb.h"

#include <string>
#include <sys/utsname.h>
#include <unistd.h>

namespace reprise::tree {

void describe_host(wire::Hello& hello) {
    hello.set_boot_id(boot_id());
    hello.set_time_namespace(time_namespace());
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
