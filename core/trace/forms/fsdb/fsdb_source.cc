#include "core/trace/forms/fsdb/fsdb_source.hh"

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/trace/capture/byte_stream.hh"
#include "core/trace/capture/line_reader.hh"
#include "core/trace/forms/fsdb/fsdb_columns.hh"
#include "core/trace/forms/message_source.hh"
#include "core/trace/forms/query_source.hh"
#include "core/trace/forms/text/text_cells.hh"
#include "core/trace/forms/text/text_form.hh"
#include "core/trace/forms/text/text_row.hh"
#include "core/trace/reassembly/message.hh"
#include "core/wire/query.hh"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace reprise::trace {
namespace {

constexpr std::string_view kFsdbMagic = "#fsdb";

bool is_number(std::string_view cell) {
    return !cell.empty() && std::ranges::all_of(cell, [](char c) { return c >= '0' && c <= '9'; });
}

std::string_view as_text(Bytes head) {
    return {reinterpret_cast<const char*>(head.data()), head.size()};
}

bool has_magic(std::string_view head) {
    return head.starts_with(kFsdbMagic) &&
           (head.size() == kFsdbMagic.size() || head[kFsdbMagic.size()] == ' ' ||
            head[kFsdbMagic.size()] == '\t');
}

/// Six columns that can be what LDplayer's manual says.
bool looks_like_row(std::string_view line) {
    RowCells cells{};
    if (!FsdbColumns().split(line, cells)) {
        return false;
    }
    const auto cell = [&](Column column) { return cells.at(static_cast<size_t>(column)); };
    const std::string_view protocol = cell(Column::kTransport);
    Nanoseconds time = 0;
    IpAddress source;
    Transport transport{};
    return parse_time(cell(Column::kTime), time) && parse_address(cell(Column::kSource), source) &&
           (is_number(protocol) || parse_transport(protocol, transport));
}

class FsdbSource final : public QuerySource {
public:
    FsdbSource(std::unique_ptr<ByteStream> stream, std::string path, const ReaderOptions& options)
        : QuerySource(options), lines_(std::move(stream)), path_(std::move(path)) {
        read_header();
    }

    [[nodiscard]] double share_read() const override { return lines_.stream().share_read(); }

    [[nodiscard]] std::string description() const override {
        const auto& ignored = columns_.ignored();
        return describe("fsdb", lines_.stream()) +
               (ignored.empty() ? "" : fmt::format(" (not read: {})", fmt::join(ignored, " ")));
    }

private:
    /// Up to the header, or to the first row, which is kept.
    void read_header() {
        std::string_view line;
        while (!kept_ && lines_.next(line)) {
            if (has_magic(line)) {
                columns_ = FsdbColumns(line, fmt::format("{} line {}", path_, lines_.number()));
                return;
            }
            kept_ = !line.empty() && line[0] != '#';
        }
        row_ = line;
    }

    bool next_query(Query& query) override {
        while (!std::exchange(kept_, false)) {
            if (!lines_.next(row_)) {
                return lines_.trouble().empty() ? false : fail(place(), lines_.trouble());
            }
            kept_ = !row_.empty() && row_[0] != '#';
        }
        if (!columns_.split(row_, cells_)) {
            return fail(place(), fmt::format("the row does not have the {} columns of the header",
                                             columns_.count()));
        }
        complete_cells();
        return rows_.parse(cells_, query) || fail(place(), rows_.error());
    }

    /// What LDplayer's text leaves open, and numbers where the text form wants words.
    void complete_cells() {
        set_missing(Column::kId, id_, items() % 65'536);
        set_missing(Column::kPort, port_, 10'000 + items() % 50'000);
        spell(Column::kType, type_, "TYPE");
        spell(Column::kClass, class_, "CLASS");
        std::string_view& protocol = cell(Column::kTransport);
        protocol = protocol == "17" ? "udp" : protocol == "6" ? "tcp" : protocol;
    }

    std::string_view& cell(Column column) { return cells_.at(static_cast<size_t>(column)); }

    void set_missing(Column column, std::string& memory, std::uint64_t value) {
        if (cell(column) == kNoCell) {
            memory.clear();
            append_number(memory, value);
            cell(column) = memory;
        }
    }

    void spell(Column column, std::string& memory, std::string_view prefix) {
        if (is_number(cell(column))) {
            memory = prefix;
            memory += cell(column);
            cell(column) = memory;
        }
    }

    [[nodiscard]] std::string place() const { return fmt::format("line {}", lines_.number()); }

    LineReader lines_;
    std::string path_;
    FsdbColumns columns_;
    std::string_view row_; ///< the line read last
    bool kept_ = false;    ///< it is still to be parsed
    RowCells cells_{};
    RowParser rows_;
    std::string id_; ///< what cells made here refer to
    std::string port_;
    std::string type_;
    std::string class_;
};

} // namespace

bool looks_like_fsdb(Bytes head) {
    const std::string_view text = as_text(head);
    return has_magic(text) || looks_like_row(first_content(text));
}

std::unique_ptr<MessageSource> open_fsdb(std::unique_ptr<ByteStream> stream,
                                         const std::string& path, const ReaderOptions& options) {
    return std::make_unique<FsdbSource>(std::move(stream), path, options);
}

} // namespace reprise::trace
