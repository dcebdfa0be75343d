// dnstap files.
#include "core/trace/forms/message_source.hh"
#include "core/trace/testing/fuzz_file.hh"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, size_t size) {
    if (reprise::trace::kDnstapForm.fits({data, size})) {
        reprise::trace::test::fuzz_reader(data, size, size);
    }
    return 0;
}
