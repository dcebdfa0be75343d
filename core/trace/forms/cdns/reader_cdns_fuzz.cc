// C-DNS files. An item of one byte may be a query and a response.
#include "core/trace/forms/message_source.hh"
#include "core/trace/testing/fuzz_file.hh"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, size_t size) {
    if (reprise::trace::kCdnsForm.fits({data, size})) {
        reprise::trace::test::fuzz_reader(data, size, 2 * size);
    }
    return 0;
}
