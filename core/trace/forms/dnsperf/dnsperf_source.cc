#include "core/trace/forms/dnsperf/dnsperf_source.hh"

#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/dns/message.hh"
#include "core/dns/words.hh"
#include "core/trace/capture/byte_stream.hh"
#include "core/trace/capture/line_reader.hh"
#include "core/trace/forms/fsdb/fsdb_source.hh"
#include "core/trace/forms/message_source.hh"
#include "core/trace/forms/query_source.hh"
#include "core/trace/forms/text/text_cells.hh"
#include "core/trace/forms/text/text_form.hh"
#include "core/trace/forms/text/text_row.hh"
#include "core/trace/reassembly/message.hh"
#include "core/wire/query.hh"

#include <fmt/format.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace reprise::trace {
namespace {

constexpr Nanoseconds kBegin = 1'704'067'200 * kSecond; // 2024-01-01T00:00:00Z
constexpr Nanoseconds kGap = kMillisecond;

struct Line {
    std::string_view name;
    std::string_view type;
    bool whole; ///< two words, not more
};

Line split(std::string_view text) {
    const std::string_view name = take_word(text);
    const std::string_view type = take_word(text);
    return {.name = name, .type = type, .whole = !type.empty() && take_word(text).empty()};
}

class DnsperfSource final : public QuerySource {
public:
    DnsperfSource(std::unique_ptr<ByteStream> stream, const ReaderOptions& options)
        : QuerySource(options), lines_(std::move(stream)) {
        cells_.fill(kNoCell);
        cell(Column::kSource) = "198.18.0.1";
        cell(Column::kDestination) = "192.0.2.53";
        cell(Column::kFlags) = "rd";
    }

    [[nodiscard]] double share_read() const override { return lines_.stream().share_read(); }

    [[nodiscard]] std::string description() const override {
        return describe("dnsperf queries", lines_.stream()) + " (times and source invented)";
    }

private:
    bool next_query(Query& query) override {
        std::string_view text;
        Line line{};
        do {
            if (!lines_.next(text)) {
                return lines_.trouble().empty() ? false : fail(place(), lines_.trouble());
            }
            line = split(text);
        } while (line.name.empty() || text[0] == ';' || text[0] == '#');
        if (!line.whole) {
            return fail(place(), "this is not a name and a type, such as www.example.com AAAA");
        }
        fill_cells(line);
        return rows_.parse(cells_, query) || fail(place(), rows_.error());
    }

    void fill_cells(const Line& line) {
        cell(Column::kName) = line.name;
        cell(Column::kType) = line.type;
        time_.clear();
        append_time(time_, kBegin + static_cast<Nanoseconds>(items()) * kGap);
        cell(Column::kTime) = time_;
        id_.clear();
        append_number(id_, items() % 65'536);
        cell(Column::kId) = id_;
        port_.clear();
        append_number(port_, 10'000 + items() % 50'000);
        cell(Column::kPort) = port_;
    }

    std::string_view& cell(Column column) { return cells_.at(static_cast<size_t>(column)); }

    [[nodiscard]] std::string place() const { return fmt::format("line {}", lines_.number()); }

    LineReader lines_;
    RowCells cells_{};
    std::string time_; ///< what cells refer to
    std::string id_;
    std::string port_;
    RowParser rows_;
};

} // namespace

bool looks_like_dnsperf(Bytes head) {
    const Line line =
        split(first_content({reinterpret_cast<const char*>(head.data()), head.size()}));
    WireName name;
    return line.whole && type_words().number(line.type) &&
           parse_name(line.name, name) == NameError::kNone;
}

std::unique_ptr<MessageSource> open_dnsperf(std::unique_ptr<ByteStream> stream,
                                            const std::string& /*path*/,
                                            const ReaderOptions& options) {
    return std::make_unique<DnsperfSource>(std::move(stream), options);
}

} // namespace reprise::trace
