#include "querier/intake.hh"

#include "core/query.hh"
#include "core/record.hh"
#include "querier/replayer.hh"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace reprise::querier {
namespace {

/// About 5 us of work.
constexpr int kRecordsAtOnce = 32;

} // namespace

void Intake::begin(std::string records) {
    records_ = std::move(records);
    reader_ = RecordReader(
        Bytes{reinterpret_cast<const std::uint8_t*>(records_.data()), records_.size()});
    busy_ = true;
}

std::string Intake::step(Replayer& replayer) {
    Query query;
    for (int n = 0; n < kRecordsAtOnce; ++n) {
        if (!reader_.next(query)) {
            const RecordError error = reader_.error();
            const size_t offset = reader_.offset();
            busy_ = false;
            return error == RecordError::kNone
                       ? ""
                       : fmt::format("corrupt block from the parent at offset {}", offset);
        }
        if (!replayer.accept(query)) {
            busy_ = false;
            return "the parent sent more queries than it was granted";
        }
    }
    return "";
}

} // namespace reprise::querier
