// Blocks of query records: what is read must be writable and come out the same.
#include "core/wire/record.hh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, size_t size) {
    reprise::RecordReader reader({data, size});
    reprise::Query query;
    while (reader.next(query)) {
        std::string written;
        reprise::append_record(written, query);
        reprise::RecordReader again(reprise::bytes_of(written));
        reprise::Query copy;
        if (!again.next(copy) || copy.sequence != query.sequence || copy.source != query.source ||
            !std::ranges::equal(copy.message, query.message)) {
            std::abort();
        }
    }
    if (reader.offset() > size) {
        std::abort();
    }
    // What a querier reads, the nodes before it could hand on.
    reprise::RecordReader whole({data, size});
    reprise::RecordReader skimmer({data, size});
    reprise::RecordView view;
    while (whole.next(query)) {
        if (!skimmer.next(view) || view.sequence() != query.sequence ||
            view.source() != query.source.address || view.due() != query.due ||
            view.is_close() != query.is_close()) {
            std::abort();
        }
    }
    return 0;
}
