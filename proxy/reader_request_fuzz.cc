// A request as the metrics' server has it: whatever comes, one response.
#include "proxy/metrics_server.hh"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, size_t size) {
    const std::string request(reinterpret_cast<const char*>(data), size);
    const std::string response = reprise::proxy::respond(request, [] { return "page\n"; });
    const bool page = response.ends_with("\r\n\r\npage\n");
    if (!response.starts_with("HTTP/1.0 ") || page != response.starts_with("HTTP/1.0 200 ")) {
        std::abort();
    }
    return 0;
}
