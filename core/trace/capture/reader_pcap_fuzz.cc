// Captures but pcapng, and compressed files of any form; the packets in them are for
// reader_packets.
#include "core/base/bytes.hh"
#include "core/trace/testing/fuzz_file.hh"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, size_t size) {
    if (reprise::Cursor({data, size}).u32be() != 0x0a0d0d0aU) {
        reprise::trace::test::fuzz_reader(data, size, ~0ULL); // what was compressed may be long
    }
    return 0;
}
