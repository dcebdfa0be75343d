// Round trips as a distribution: a shape's text (first byte even), or a file of observed ones. What
// is taken has quantiles that do not fall.
#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "proxy/delay/delay_model.hh"

#include <cstdint>
#include <cstdlib>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

namespace {

void read(const std::string& text) {
    try {
        const auto distribution = reprise::proxy::rtt_distribution(text);
        reprise::Nanoseconds before = 0;
        for (const double share : {0.0, 0.01, 0.5, 0.99, 0.999999999}) {
            const auto value = distribution(share);
            if (value < before) {
                std::abort();
            }
            before = value;
        }
    } catch (const reprise::UsageError&) {
        return; // refused
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, size_t size) {
    if (size == 0) {
        return 0;
    }
    const std::string rest(reinterpret_cast<const char*>(data) + 1, size - 1);
    if (data[0] % 2 == 0) {
        if (rest.find(':') != std::string::npos && rest.find('/') == std::string::npos) {
            read(rest);
        }
        return 0;
    }
    const int file = memfd_create("fuzz", MFD_CLOEXEC);
    if (file < 0 || write(file, rest.data(), rest.size()) != static_cast<ssize_t>(rest.size())) {
        std::abort();
    }
    read("/proc/self/fd/" + std::to_string(file));
    close(file);
    return 0;
}
