#include "core/trace/forms/text/text_explain.hh"

#include "core/base/nearest.hh"
#include "core/dns/message.hh"
#include "core/dns/words.hh"
#include "core/trace/forms/text/text_cells.hh"
#include "core/trace/forms/text/text_form.hh"

#include <fmt/format.h>

#include <array>
#include <string>
#include <string_view>

namespace reprise::trace {
namespace {

std::string wrong(std::string_view cell, std::string_view expected, std::string_view near = {}) {
    return fmt::format("{} is not {}{}", quoted_cell(cell), expected,
                       near.empty() ? "" : fmt::format("; did you mean {}?", near));
}

std::string explain_name(std::string_view cell) {
    WireName name;
    return fmt::format("{} {}", quoted_cell(cell), name_error_text(parse_name(cell, name)));
}

std::string explain_transport(std::string_view cell) {
    constexpr std::array<std::string_view, 6> kNames{"udp",  "tcp",   "tls",
                                                     "quic", "https", "stateless-tcp"};
    return wrong(cell, "a transport (udp, tcp, tls, quic, https, stateless-tcp)",
                 nearest_word(cell, kNames));
}

} // namespace

std::string explain_cell(Column column, std::string_view cell) {
    switch (column) {
    case Column::kTime:
        return wrong(cell, "a time in seconds since the epoch, such as 1475762100.123456789");
    case Column::kSource:
    case Column::kDestination:
        return wrong(cell, "an address, such as 192.0.2.1 or 2001:db8::1");
    case Column::kTransport:
        return explain_transport(cell);
    case Column::kConnection:
        return wrong(cell, "the number of a connection, below 2^48, or -");
    case Column::kId:
        return wrong(cell, "a number from 0 to 65535, nor the word close");
    case Column::kFlags:
        return wrong(cell, "a list of flags, such as rd,ad (aa tc rd ra z ad cd), or -");
    case Column::kOpcode:
        return wrong(cell, "an opcode (QUERY, NOTIFY, ... or 0 to 15)",
                     opcode_words().nearest(cell));
    case Column::kName:
        return explain_name(cell);
    case Column::kClass:
        return wrong(cell, "a class (IN, CH, ... or CLASS1)", class_words().nearest(cell));
    case Column::kType:
        return wrong(cell, "a type", type_words().nearest(cell));
    case Column::kDo:
        return wrong(cell, "1, 0 or -");
    case Column::kVersion:
        return wrong(cell, "a number from 0 to 255, or -");
    case Column::kOptions:
        return wrong(cell, "a list of EDNS options CODE:HEX;CODE:HEX, such as NSID:, or -");
    case Column::kHex:
        return wrong(cell, "a message of 12 to 65535 bytes in hexadecimal, or -");
    case Column::kPort:
    case Column::kDport:
    case Column::kEdns:
    case Column::kRtt:
    case Column::kIdle:
        break;
    }
    return wrong(cell, "a number from 0 to 65535, or -");
}

} // namespace reprise::trace
