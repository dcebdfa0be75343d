#include "core/base/capabilities.hh"

#include "core/base/error.hh"

#include <array>
#include <functional>
#include <initializer_list>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

namespace reprise {

/// libc has no functions for it. A capability that is no longer permitted leaves the ambient set by
/// itself.
void give_up(std::initializer_list<unsigned> capabilities) {
    if (geteuid() == 0) {
        return;
    }
    __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> data{};
    check(static_cast<int>(syscall(SYS_capget, &header, data.data())), "capget");
    for (const unsigned one : capabilities) {
        __user_cap_data_struct& part = data.at(CAP_TO_INDEX(one));
        part.effective &= ~CAP_TO_MASK(one);
        part.permitted &= ~CAP_TO_MASK(one);
        part.inheritable &= ~CAP_TO_MASK(one);
    }
    check(static_cast<int>(syscall(SYS_capset, &header, data.data())), "capset");
}

bool works_without(std::initializer_list<unsigned> capabilities,
                   const std::function<bool()>& attempt) {
    bool works = false;
    std::thread([&] { // capabilities are a thread's own
        give_up(capabilities);
        works = attempt();
    })
        .join();
    return works;
}

} // namespace reprise
