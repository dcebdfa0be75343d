#include "zonebuilder/reconstruct/rdata_text.hh"

#include "core/base/bytes.hh"
#include "core/dns/words.hh"
#include "zonebuilder/zone/zone.hh"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

extern "C" {
#include <libknot/descriptor.h>
#include <libknot/dname.h>
#include <libknot/rdata.h>
#include <libknot/rrset-dump.h>
#include <libknot/rrset.h>
}

namespace reprise::zonebuilder {
namespace {

constexpr std::array<std::uint16_t, 22> kNamed{1,  2,  5,  6,  12, 13, 15, 16, 28, 33, 35,
                                               39, 43, 44, 46, 47, 48, 50, 51, 52, 59, 60};

bool is_named(std::uint16_t type) { return std::ranges::find(kNamed, type) != kNamed.end(); }

/// Data that ends in a list of types, behind so many words: libzscanner does not take all of them
/// by name (NULL and SIG).
void append_types(std::string& out, std::string_view text, unsigned before) {
    while (!text.empty()) {
        const std::string_view word = text.substr(0, text.find(' '));
        std::uint16_t type = 0;
        const bool known =
            before == 0 && knot_rrtype_from_string(std::string(word).c_str(), &type) == 0;
        if (known) {
            out += type_text(type);
        } else {
            out += word;
        }
        text.remove_prefix(word.size());
        if (!text.empty()) {
            out += ' ';
            text.remove_prefix(1);
        }
        before -= before > 0 ? 1U : 0U;
    }
}

} // namespace

std::string type_text(std::uint16_t type) {
    return is_named(type) ? type_name(type) : fmt::format("TYPE{}", type);
}

namespace {

/// Whether the times of an RRSIG (RFC 4034 section 3.1.5) can be written as dates: libknot puts
/// those over 68 years ahead before 1970.
bool has_dates(std::string_view rdata) {
    constexpr std::size_t kExpiration = 8;
    constexpr std::size_t kInception = 12;
    constexpr std::uint32_t kLatest = 3'000'000'000; // in 2065
    const auto seconds = [rdata](std::size_t at) {
        const auto* const bytes = reinterpret_cast<const std::uint8_t*>(rdata.data()) + at;
        return std::uint32_t{load16(bytes)} << 16U | load16(bytes + 2);
    };
    return rdata.size() >= kInception + 4 && seconds(kExpiration) < kLatest &&
           seconds(kInception) < kLatest;
}

/// Whether an NSEC3 record (RFC 5155 section 3.2) names a next owner.
bool has_next_owner(std::string_view rdata) {
    constexpr std::size_t kSaltSize = 4;
    const auto byte = [rdata](std::size_t at) {
        return at < rdata.size() ? static_cast<std::uint8_t>(rdata[at]) : std::uint8_t{0};
    };
    return byte(kSaltSize + 1 + byte(kSaltSize)) > 0;
}

/// Room for one rdata as libknot has it, with bytes of one value behind it: libknot 3.2 reads
/// beyond the end of data that is too short for its type.
class Padded {
public:
    explicit Padded(std::uint8_t padding)
        : bytes_(2 + kMostData + kPadding, padding), padding_(padding) {}

    knot_rdata_t* put(std::string_view rdata) {
        const auto begin = bytes_.begin() + 2;
        const auto end = std::ranges::copy(rdata, begin).out;
        std::fill(end, std::max(begin + used_, end), padding_);
        used_ = static_cast<std::ptrdiff_t>(rdata.size());
        auto* const made = reinterpret_cast<knot_rdata_t*>(bytes_.data());
        made->len = static_cast<std::uint16_t>(rdata.size());
        return made;
    }

private:
    static constexpr std::size_t kMostData = 65'535;
    static constexpr std::size_t kPadding = 512UL << 10U; ///< its text alone is over kMost

    std::vector<std::uint8_t> bytes_;
    std::uint8_t padding_;
    std::ptrdiff_t used_ = 0;
};

} // namespace

struct RdataText::Dump {
    static constexpr std::size_t kFirst = 4096;
    static constexpr std::size_t kMost = 1UL << 20U;

    /// Empty where it cannot be written; most data without any bytes is like that, too.
    std::string_view text(Padded& room, std::uint16_t type, std::string_view rdata, bool generic) {
        knot_rrset_t rrset;
        knot_rrset_init(&rrset, &root, type, KNOT_CLASS_IN, 0);
        rrset.rrs.count = 1;
        rrset.rrs.rdata = room.put(rdata);
        rrset.rrs.size = static_cast<std::uint32_t>(knot_rdata_size(rrset.rrs.rdata->len));
        style.generic = generic;
        style.human_timestamp = type != type::kRrsig || has_dates(rdata);
        int size = -1;
        while ((size = knot_rrset_txt_dump_data(&rrset, 0, buffer.data(), buffer.size(), &style)) <
                   0 &&
               buffer.size() < kMost) {
            buffer.resize(buffer.size() * 2);
        }
        return {buffer.data(), static_cast<std::size_t>(std::max(size, 0))};
    }

    knot_dname_t root = 0;
    knot_dump_style_t style = KNOT_DUMP_STYLE_DEFAULT;
    std::vector<char> buffer = std::vector<char>(kFirst);
    Padded ones{0xff}; ///< lengths read there are large, so that reading on and on ends
    Padded zeros{0};
};

RdataText::RdataText() : dump_(std::make_unique<Dump>()) { dump_->style.wrap = false; }

RdataText::~RdataText() = default;

bool RdataText::append(std::string& out, std::uint16_t type, std::string_view rdata) {
    const std::string_view text = dump_->text(dump_->ones, type, rdata, !is_named(type));
    if (type == type::kNsec || type == type::kNsec3) {
        append_types(out, text, type == type::kNsec ? 1 : 5);
    } else {
        out += text;
    }
    return !text.empty();
}

bool RdataText::is_valid(std::uint16_t type, std::string_view rdata) {
    constexpr std::uint16_t kApl = 42; // may be empty (RFC 3123)
    const std::string text(dump_->text(dump_->ones, type, rdata, false));
    if (text.empty()) {
        return type == kApl && rdata.empty();
    }
    // Only the NSEC3 record of an empty non-terminal lists no type.
    const bool whole = type == type::kNsec3 ? has_next_owner(rdata) : text.back() != ' ';
    return whole && text == dump_->text(dump_->zeros, type, rdata, false);
}

} // namespace reprise::zonebuilder
