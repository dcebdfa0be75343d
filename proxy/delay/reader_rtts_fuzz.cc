// Any bytes as a table of round trips: refused in one line that names the place, or good for every
// address.
#include "core/base/address.hh"
#include "core/base/error.hh"
#include "proxy/delay/delay_model.hh"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, size_t size) {
    std::array<std::uint8_t, 16> some{};
    std::copy_n(data, std::min(size, some.size()), some.begin());
    std::istringstream file(std::string(reinterpret_cast<const char*>(data), size));
    try {
        const reprise::proxy::RttTable table(file, "rtts", {});
        for (const auto& address :
             {reprise::IpAddress::v4(some.data()), reprise::IpAddress::v6(some.data())}) {
            const auto* path = table.find(address);
            if (path != nullptr && (path->rtt < 0 || path->loss < 0 || path->loss > 1)) {
                std::abort();
            }
        }
    } catch (const reprise::Error& error) {
        if (!std::string_view(error.what()).starts_with("rtts:")) {
            std::abort();
        }
    }
    return 0;
}
