#include "core/trace/forms/fsdb/fsdb_source.hh"

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/trace/capture/byte_stream.hh"
#include "core/trace/capture/line_reader.hh"
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
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace reprise::trace {

namespace {

struct Name {
    std::string_view text; ///< as plain() makes it
    Column column;
};

constexpr std::array kNames{
    Name{"time", Column::kTime},
    Name{"timestamp", Column::kTime},
    Name{"ts", Column::kTime},
    Name{"epoch", Column::kTime},
    Name{"srcip", Column::kSource},
    Name{"sourceip", Column::kSource},
    Name{"source", Column::kSource},
    Name{"src", Column::kSource},
    Name{"client", Column::kSource},
    Name{"clientip", Column::kSource},
    Name{"ip", Column::kSource},
    Name{"srcport", Column::kPort},
    Name{"sourceport", Column::kPort},
    Name{"sport", Column::kPort},
    Name{"port", Column::kPort},
    Name{"dstip", Column::kDestination},
    Name{"destip", Column::kDestination},
    Name{"destinationip", Column::kDestination},
    Name{"destination", Column::kDestination},
    Name{"dst", Column::kDestination},
    Name{"dstport", Column::kDport},
    Name{"destport", Column::kDport},
    Name{"destinationport", Column::kDport},
    Name{"dport", Column::kDport},
    Name{"protocol", Column::kTransport},
    Name{"proto", Column::kTransport},
    Name{"transport", Column::kTransport},
    Name{"msgid", Column::kId},
    Name{"dnsid", Column::kId},
    Name{"queryid", Column::kId},
    Name{"id", Column::kId},
    Name{"flags", Column::kFlags},
    Name{"opcode", Column::kOpcode},
    Name{"qname", Column::kName},
    Name{"queryname", Column::kName},
    Name{"query", Column::kName},
    Name{"name", Column::kName},
    Name{"qclass", Column::kClass},
    Name{"queryclass", Column::kClass},
    Name{"class", Column::kClass},
    Name{"qtype", Column::kType},
    Name{"querytype", Column::kType},
    Name{"type", Column::kType},
    Name{"edns", Column::kEdns},
    Name{"ednssize", Column::kEdns},
    Name{"ednsudpsize", Column::kEdns},
    Name{"udpsize", Column::kEdns},
    Name{"bufsize", Column::kEdns},
    Name{"do", Column::kDo},
    Name{"ednsdo", Column::kDo},
    Name{"dobit", Column::kDo},
    Name{"dnssecok", Column::kDo},
};

bool is_blank(char c) { return c == ' ' || c == '\t'; }

/// In lower case without underscores and hyphens, and without the type that newer Fsdb writes
/// behind a colon.
std::string plain(std::string_view name) {
    std::string out;
    for (const char c : name.substr(0, name.find(':'))) {
        if (c != '_' && c != '-') {
            out += c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
        }
    }
    return out;
}

/// What Fsdb's -F stands for: a code, C and the character, or the character.
char separator_of(std::string_view code) {
    if (code == "t") {
        return '\t';
    }
    if (code.empty() || code == "s" || code == "S" || code == "D") {
        return 0;
    }
    return code[0] == 'C' && code.size() > 1 ? code[1] : code[0];
}

} // namespace

std::string_view take_word(std::string_view& text, char separator) {
    if (separator == 0) {
        text.remove_prefix(
            static_cast<size_t>(std::ranges::find_if_not(text, is_blank) - text.begin()));
    }
    const auto ends = [separator](char c) { return separator == 0 ? is_blank(c) : c == separator; };
    const auto size = static_cast<size_t>(std::ranges::find_if(text, ends) - text.begin());
    const std::string_view word = text.substr(0, size);
    text.remove_prefix(std::min(size + 1, text.size()));
    return word;
}

FsdbColumns::FsdbColumns()
    : order_{Column::kTime,  Column::kSource, Column::kName,
             Column::kClass, Column::kType,   Column::kTransport} {}

FsdbColumns::FsdbColumns(std::string_view header, const std::string& place) {
    take_word(header); // "#fsdb"
    while (true) {
        const std::string_view word = take_word(header);
        if (word.empty()) {
            break;
        }
        if (word[0] == '-') {
            read_option(word, header);
        } else {
            add_column(word, place);
        }
    }
    check(place);
}

void FsdbColumns::read_option(std::string_view option, std::string_view& rest) {
    const std::string_view value = option.size() > 2 ? option.substr(2) : take_word(rest);
    if (option.substr(0, 2) == "-F") {
        separator_ = separator_of(value);
    }
}

void FsdbColumns::add_column(std::string_view name, const std::string& place) {
    const auto found = std::ranges::find(kNames, plain(name), &Name::text);
    if (found == kNames.end()) {
        ignored_.emplace_back(name);
        order_.emplace_back(std::nullopt);
        return;
    }
    if (has(found->column)) {
        throw TraceError(fmt::format("{}: column {} is there twice under different names; leave "
                                     "one of them out",
                                     place, name));
    }
    order_.emplace_back(found->column);
}

bool FsdbColumns::has(Column column) const {
    return std::ranges::find(order_, std::optional(column)) != order_.end();
}

void FsdbColumns::check(const std::string& place) const {
    constexpr std::array kNeeded{Name{"time", Column::kTime}, Name{"srcip", Column::kSource},
                                 Name{"qname", Column::kName}, Name{"type", Column::kType}};
    for (const Name& needed : kNeeded) {
        if (!has(needed.column)) {
            throw TraceError(fmt::format("{}: there is no column {}; name the columns, such as "
                                         "#fsdb time srcip qname class type protocol",
                                         place, needed.text));
        }
    }
}

bool FsdbColumns::split(std::string_view row, RowCells& cells) const {
    cells.fill(kNoCell);
    for (const auto& column : order_) {
        const std::string_view cell = take_word(row, separator_);
        if (separator_ == 0 && cell.empty()) {
            return false;
        }
        if (column && !cell.empty()) {
            cells.at(static_cast<size_t>(*column)) = cell;
        }
    }
    return take_word(row).empty();
}

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
