#include "core/trace/forms/text/text_row.hh"

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/hex.hh"
#include "core/base/nearest.hh"
#include "core/base/numbers.hh"
#include "core/dns/message.hh"
#include "core/dns/words.hh"
#include "core/trace/forms/message_source.hh"
#include "core/trace/forms/text/message_columns.hh"
#include "core/trace/forms/text/text_cells.hh"
#include "core/trace/forms/text/text_form.hh"
#include "core/trace/reassembly/message.hh"
#include "core/wire/query.hh"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

namespace reprise::trace {

namespace {

/// Where a row says nothing else: addresses for documentation.
IpAddress default_destination(const IpAddress& source) {
    static const IpAddress v4 = IpAddress::parse("192.0.2.53").value_or(IpAddress{});
    static const IpAddress v6 = IpAddress::parse("2001:db8::53").value_or(IpAddress{});
    return source.is_v4() ? v4 : v6;
}

/// Whether a row's cell says what the message in hex does, in a column from kId to kOptions.
bool same(Column column, const MessageColumns& said, const MessageColumns& hex) {
    const bool question = !hex.name.empty();
    switch (column) {
    case Column::kId:
        return said.id == hex.id;
    case Column::kFlags:
        return said.flags == hex.flags;
    case Column::kOpcode:
        return said.opcode == hex.opcode;
    case Column::kName:
        return std::ranges::equal(said.name, hex.name);
    case Column::kClass:
        return question && said.dns_class == hex.dns_class;
    case Column::kType:
        return question && said.type == hex.type;
    case Column::kEdns:
        return hex.edns && said.udp_size == hex.udp_size;
    case Column::kDo:
        return hex.edns && said.dnssec_ok == hex.dnssec_ok;
    case Column::kVersion:
        return hex.edns && said.version == hex.version;
    default:
        return hex.edns && std::ranges::equal(said.options, hex.options);
    }
}

} // namespace

bool RowParser::fail(Column column, const std::string& what) {
    error_ = fmt::format("column {}: {}", kColumnNames.at(static_cast<size_t>(column)), what);
    return false;
}

bool RowParser::want(Column column, const std::string& what) {
    return has(column) || fail(column, what);
}

template <typename Parse> bool RowParser::take(Column column, Parse parse) {
    const std::string_view text = cell(column);
    return text == kNoCell || parse(text) || fail(column, explain_cell(column, text));
}

template <typename T> bool RowParser::take_number(Column column, T& out) {
    return take(column, [&](std::string_view text) { return parse_number(text, out); });
}

bool RowParser::parse_endpoints(Query& query) {
    query.source.port = 0;
    query.destination.port = 53;
    const auto address = [](IpAddress& out) {
        return [&out](std::string_view text) { return parse_address(text, out); };
    };
    if (!want(Column::kSource, "- where the client's address is needed") ||
        !take(Column::kSource, address(query.source.address))) {
        return false;
    }
    if (!has(Column::kDestination)) {
        query.destination.address = default_destination(query.source.address);
    }
    return take(Column::kDestination, address(query.destination.address)) &&
           take_number(Column::kPort, query.source.port) &&
           take_number(Column::kDport, query.destination.port);
}

bool RowParser::parse_transport_cells(Query& query) {
    query.transport = Transport::kUdp;
    query.connection = 0;
    query.rtt_class = 0;
    query.idle_class = 0;
    return want(Column::kTime, "- where a time is needed, such as 1475762100.123456789") &&
           take(Column::kTime,
                [&](std::string_view text) { return parse_time(text, query.trace_time); }) &&
           parse_endpoints(query) &&
           take(Column::kTransport,
                [&](std::string_view text) { return parse_transport(text, query.transport); }) &&
           take(Column::kConnection,
                [&](std::string_view text) {
                    return parse_number(text, query.connection) &&
                           query.connection <= kMaxConnection;
                }) &&
           take_number(Column::kRtt, query.rtt_class) &&
           take_number(Column::kIdle, query.idle_class);
}

bool RowParser::parse_close(Query& query) {
    query.message = {};
    if (query.transport == Transport::kUdp) {
        return fail(Column::kId, "a close needs a transport with connections, not udp");
    }
    for (const Column column :
         {Column::kFlags, Column::kOpcode, Column::kName, Column::kClass, Column::kType,
          Column::kEdns, Column::kDo, Column::kVersion, Column::kOptions, Column::kHex}) {
        if (has(column)) {
            return fail(column, "a close has no message; put - here, or an id instead of close");
        }
    }
    return true;
}

bool RowParser::parse_message_cells() {
    columns_ = {};
    columns_.dns_class = 1;
    const auto word = [](const WordTable& table, auto& out) {
        return [&table, &out](std::string_view text) {
            const auto number = table.number(text);
            out = static_cast<std::remove_reference_t<decltype(out)>>(number.value_or(0));
            return number.has_value();
        };
    };
    const auto name = [this](std::string_view text) {
        const bool good = parse_name(text, name_) == NameError::kNone;
        columns_.name = good ? name_.view() : Bytes();
        return good;
    };
    const auto flags = [this](std::string_view text) { return parse_flags(text, columns_.flags); };
    return take_number(Column::kId, columns_.id) && take(Column::kFlags, flags) &&
           take(Column::kOpcode, word(opcode_words(), columns_.opcode)) &&
           take(Column::kName, name) &&
           take(Column::kClass, word(class_words(), columns_.dns_class)) &&
           take(Column::kType, word(type_words(), columns_.type)) && parse_edns_cells();
}

bool RowParser::parse_edns_cells() {
    columns_.edns = has(Column::kEdns);
    const auto dnssec_ok = [this](std::string_view text) {
        columns_.dnssec_ok = text == "1";
        return text == "1" || text == "0";
    };
    const auto options = [this](std::string_view text) {
        const bool good = parse_options(text, options_);
        columns_.options = options_;
        return good;
    };
    return take_number(Column::kEdns, columns_.udp_size) && take(Column::kDo, dnssec_ok) &&
           take_number(Column::kVersion, columns_.version) && take(Column::kOptions, options);
}

/// Without an OPT record nothing of it can be said; 0 is as good as "-".
bool RowParser::check_edns() {
    const std::string needs = " needs EDNS; put a UDP size into column edns, or - here";
    if (columns_.edns) {
        return true;
    }
    if (columns_.dnssec_ok) {
        return fail(Column::kDo, "1" + needs);
    }
    if (columns_.version != 0) {
        return fail(Column::kVersion, std::string(cell(Column::kVersion)) + needs);
    }
    return columns_.options.empty() ||
           fail(Column::kOptions, quoted_cell(cell(Column::kOptions)) + needs);
}

bool RowParser::build_message(Query& query) {
    if (!want(Column::kName, "- where a name is needed (or the message in hex)") ||
        !want(Column::kType, "- where a type is needed (or the message in hex)") || !check_edns()) {
        return false;
    }
    if (message_size(columns_) > kMaxMessage) {
        return fail(Column::kOptions, "the message would be over 65535 bytes; take some out");
    }
    message_.clear();
    append_message(message_, columns_);
    query.message = message_;
    return true;
}

bool RowParser::read_hex(Query& query) {
    message_.clear();
    const std::string_view text = cell(Column::kHex);
    if (!parse_hex(text, message_) || message_.size() < kDnsHeaderSize ||
        message_.size() > kMaxMessage) {
        return fail(Column::kHex, explain_cell(Column::kHex, text));
    }
    query.message = message_;
    MessageColumns hex;
    read_columns(query.message, hex);
    return check_against(hex);
}

/// What the row says besides hex must be what hex says.
bool RowParser::check_against(const MessageColumns& hex) {
    for (auto number = static_cast<unsigned>(Column::kId);
         number <= static_cast<unsigned>(Column::kOptions); ++number) {
        const auto column = static_cast<Column>(number);
        if (has(column) && !same(column, columns_, hex)) {
            std::string says;
            append_message_cell(says, column, hex);
            return fail(column, fmt::format("{} contradicts hex, which says {}; edit hex or set it "
                                            "to -",
                                            quoted_cell(cell(column)), quoted_cell(says)));
        }
    }
    return true;
}

bool RowParser::parse(const RowCells& cells, Query& query) {
    cells_ = &cells;
    if (!parse_transport_cells(query)) {
        return false;
    }
    if (cell(Column::kId) == kCloseCell) {
        return parse_close(query);
    }
    return parse_message_cells() && (has(Column::kHex) ? read_hex(query) : build_message(query));
}

namespace {

/// The cell at the beginning of `row` and its tab, taken off; `last` where no tab is behind it.
std::string_view take_cell(std::string_view& row, bool& last) {
    const void* tab = row.empty() ? nullptr : std::memchr(row.data(), '\t', row.size());
    last = tab == nullptr;
    const size_t size =
        last ? row.size() : static_cast<size_t>(static_cast<const char*>(tab) - row.data());
    const std::string_view cell = row.substr(0, size);
    row.remove_prefix(last ? size : size + 1);
    return cell;
}

} // namespace

TextHeader::TextHeader(std::string_view line, const std::string& place) {
    for (bool last = false; !last;) {
        add_column(take_cell(line, last), place);
    }
    check_columns(place);
}

bool TextHeader::has(Column column) const {
    return std::ranges::find(order_, column) != order_.end();
}

void TextHeader::add_column(std::string_view name, const std::string& place) {
    const auto found = std::ranges::find(kColumnNames, name);
    if (found == kColumnNames.end()) {
        const std::string_view near = nearest_word(name, kColumnNames);
        throw TraceError(fmt::format(
            "{}: {} is not a column{}; tabs separate them, and there are {}", place,
            quoted_cell(name), near.empty() ? "" : fmt::format(", did you mean {}?", near),
            fmt::join(kColumnNames, " ")));
    }
    const auto column = static_cast<Column>(found - kColumnNames.begin());
    if (has(column)) {
        throw TraceError(
            fmt::format("{}: column {} is there twice; leave one of them out", place, name));
    }
    order_.push_back(column);
}

void TextHeader::check_columns(const std::string& place) const {
    for (const Column column : {Column::kTime, Column::kSource, Column::kName, Column::kType}) {
        const bool of_message = column == Column::kName || column == Column::kType;
        if (!has(column) && !(of_message && has(Column::kHex))) {
            throw TraceError(fmt::format("{}: there is no column {}; rows need time, source, and "
                                         "name and type or hex",
                                         place, kColumnNames.at(static_cast<size_t>(column))));
        }
    }
}

bool TextHeader::split(std::string_view row, RowCells& cells) const {
    cells.fill(kNoCell);
    bool last = false;
    for (const Column column : order_) {
        if (last) {
            return false;
        }
        const std::string_view cell = take_cell(row, last);
        if (!cell.empty()) {
            cells.at(static_cast<size_t>(column)) = cell;
        }
    }
    return last;
}

std::string TextHeader::explain(std::string_view row) const {
    return fmt::format("the row has {} columns, the header {}; separate cells by one tab each and "
                       "put - where there is nothing",
                       std::ranges::count(row, '\t') + 1, order_.size());
}

} // namespace reprise::trace
