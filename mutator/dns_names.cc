#include "mutator/dns_names.hh"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace reprise::mutator {
namespace {

struct Mnemonic {
    std::uint16_t number;
    std::string_view name;
};

constexpr std::array kTypes{
    Mnemonic{1, "A"},         Mnemonic{2, "NS"},       Mnemonic{3, "MD"},
    Mnemonic{4, "MF"},        Mnemonic{5, "CNAME"},    Mnemonic{6, "SOA"},
    Mnemonic{10, "NULL"},     Mnemonic{11, "WKS"},     Mnemonic{12, "PTR"},
    Mnemonic{13, "HINFO"},    Mnemonic{15, "MX"},      Mnemonic{16, "TXT"},
    Mnemonic{17, "RP"},       Mnemonic{18, "AFSDB"},   Mnemonic{24, "SIG"},
    Mnemonic{25, "KEY"},      Mnemonic{28, "AAAA"},    Mnemonic{29, "LOC"},
    Mnemonic{33, "SRV"},      Mnemonic{35, "NAPTR"},   Mnemonic{36, "KX"},
    Mnemonic{37, "CERT"},     Mnemonic{38, "A6"},      Mnemonic{39, "DNAME"},
    Mnemonic{41, "OPT"},      Mnemonic{43, "DS"},      Mnemonic{44, "SSHFP"},
    Mnemonic{45, "IPSECKEY"}, Mnemonic{46, "RRSIG"},   Mnemonic{47, "NSEC"},
    Mnemonic{48, "DNSKEY"},   Mnemonic{50, "NSEC3"},   Mnemonic{51, "NSEC3PARAM"},
    Mnemonic{52, "TLSA"},     Mnemonic{53, "SMIMEA"},  Mnemonic{55, "HIP"},
    Mnemonic{59, "CDS"},      Mnemonic{60, "CDNSKEY"}, Mnemonic{61, "OPENPGPKEY"},
    Mnemonic{62, "CSYNC"},    Mnemonic{63, "ZONEMD"},  Mnemonic{64, "SVCB"},
    Mnemonic{65, "HTTPS"},    Mnemonic{99, "SPF"},     Mnemonic{249, "TKEY"},
    Mnemonic{250, "TSIG"},    Mnemonic{251, "IXFR"},   Mnemonic{252, "AXFR"},
    Mnemonic{255, "ANY"},     Mnemonic{256, "URI"},    Mnemonic{257, "CAA"},
    Mnemonic{32769, "DLV"},
};

constexpr std::array kRcodes{
    Mnemonic{0, "NOERROR"},    Mnemonic{1, "FORMERR"},  Mnemonic{2, "SERVFAIL"},
    Mnemonic{3, "NXDOMAIN"},   Mnemonic{4, "NOTIMP"},   Mnemonic{5, "REFUSED"},
    Mnemonic{6, "YXDOMAIN"},   Mnemonic{7, "YXRRSET"},  Mnemonic{8, "NXRRSET"},
    Mnemonic{9, "NOTAUTH"},    Mnemonic{10, "NOTZONE"}, Mnemonic{16, "BADVERS"},
    Mnemonic{23, "BADCOOKIE"},
};

constexpr std::array kOpcodes{
    Mnemonic{0, "QUERY"},  Mnemonic{1, "IQUERY"}, Mnemonic{2, "STATUS"},
    Mnemonic{4, "NOTIFY"}, Mnemonic{5, "UPDATE"}, Mnemonic{6, "DSO"},
};

template <typename Table>
std::string name_or_number(const Table& table, std::uint16_t number, const char* prefix) {
    const auto found = std::find_if(table.begin(), table.end(),
                                    [&](const Mnemonic& m) { return m.number == number; });
    return found != table.end() ? std::string(found->name) : prefix + std::to_string(number);
}

std::string upper(std::string_view text) {
    std::string out(text);
    for (char& c : out) {
        c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
    }
    return out;
}

std::optional<std::uint16_t> whole_number(std::string_view text) {
    std::uint16_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool whole = error == std::errc{} && end == text.data() + text.size();
    return whole ? std::optional(value) : std::nullopt;
}

} // namespace

std::string type_name(std::uint16_t type) { return name_or_number(kTypes, type, "TYPE"); }

std::optional<std::uint16_t> type_number(std::string_view name) {
    const std::string wanted = upper(name);
    for (const Mnemonic& m : kTypes) {
        if (m.name == wanted) {
            return m.number;
        }
    }
    return wanted.starts_with("TYPE") ? whole_number(std::string_view(wanted).substr(4))
                                      : std::nullopt;
}

std::string rcode_name(std::uint16_t rcode) { return name_or_number(kRcodes, rcode, "RCODE"); }

std::string opcode_name(std::uint8_t opcode) { return name_or_number(kOpcodes, opcode, "OPCODE"); }

} // namespace reprise::mutator
