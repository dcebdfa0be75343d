#include "core/trace/forms/fsdb/fsdb_columns.hh"

#include "core/trace/forms/text/text_cells.hh"
#include "core/trace/forms/text/text_form.hh"
#include "core/trace/forms/text/text_row.hh"
#include "core/trace/reassembly/message.hh"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

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

} // namespace reprise::trace
