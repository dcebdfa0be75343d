// LDplayer's fsdb text, header line and rows.
#include "core/trace/forms/message_source.hh"
#include "core/trace/testing/fuzz_forms.hh"

#include <cstddef>
#include <cstdint>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, size_t size) {
    if (reprise::trace::kFsdbForm.fits({data, size})) {
        reprise::trace::test::fuzz_form({reinterpret_cast<const char*>(data), size});
    }
    return 0;
}
