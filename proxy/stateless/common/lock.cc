#include "proxy/stateless/common/lock.hh"

#include "core/base/error.hh"
#include "core/base/fd.hh"
#include "core/base/name_lock.hh"

#include <fmt/format.h>

#include <string>

namespace reprise::proxy {

FileDescriptor lock_interface(const std::string& interface) {
    FileDescriptor fd = take_name("reprise-stateless-" + interface);
    if (!fd.valid()) {
        throw Error(
            fmt::format("--interface {}: another front serves it; stop that one first", interface));
    }
    return fd;
}

} // namespace reprise::proxy
