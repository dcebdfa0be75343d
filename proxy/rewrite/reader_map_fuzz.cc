// Any bytes as a map: refused in one line, or good for routes.
#include "core/base/error.hh"
#include "proxy/rewrite/address_map.hh"
#include "proxy/rewrite/rewrite.hh"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    try {
        const auto map = reprise::proxy::parse_map(text, "map");
        for (const auto& resolver : map.resolvers) {
            static_cast<void>(reprise::proxy::Routes::of_resolver(map, resolver.number));
        }
        static_cast<void>(reprise::proxy::Routes::of_meta(map));
    } catch (const reprise::Error& error) {
        if (std::string_view(error.what()).empty()) {
            std::abort();
        }
    }
    return 0;
}
