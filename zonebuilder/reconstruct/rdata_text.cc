#include "zonebuilder/reconstruct/rdata_text.hh"

#include "core/dns/words.hh"

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
#include <libknot/rdataset.h>
#include <libknot/rrset-dump.h>
#include <libknot/rrset.h>
}

namespace reprise::zonebuilder {
namespace {

constexpr std::array<std::uint16_t, 22> kNamed{1,  2,  5,  6,  12, 13, 15, 16, 28, 33, 35,
                                               39, 43, 44, 46, 47, 48, 50, 51, 52, 59, 60};

bool is_named(std::uint16_t type) { return std::ranges::find(kNamed, type) != kNamed.end(); }

} // namespace

std::string type_text(std::uint16_t type) {
    return is_named(type) ? type_name(type) : fmt::format("TYPE{}", type);
}

struct RdataText::Dump {
    static constexpr std::size_t kFirst = 4096;
    static constexpr std::size_t kMost = 1UL << 20U;

    /// Empty where it cannot be written; most data without any bytes is like that, too.
    std::string_view text(std::uint16_t type, std::string_view rdata, bool generic) {
        knot_rrset_t rrset;
        knot_rrset_init(&rrset, &root, type, KNOT_CLASS_IN, 0);
        knot_rrset_add_rdata(&rrset, reinterpret_cast<const std::uint8_t*>(rdata.data()),
                             static_cast<std::uint16_t>(rdata.size()), nullptr);
        style.generic = generic;
        int size = -1;
        while ((size = knot_rrset_txt_dump_data(&rrset, 0, buffer.data(), buffer.size(), &style)) <
                   0 &&
               buffer.size() < kMost) {
            buffer.resize(buffer.size() * 2);
        }
        knot_rdataset_clear(&rrset.rrs, nullptr);
        return {buffer.data(), static_cast<std::size_t>(std::max(size, 0))};
    }

    knot_dname_t root = 0;
    knot_dump_style_t style = KNOT_DUMP_STYLE_DEFAULT;
    std::vector<char> buffer = std::vector<char>(kFirst);
};

RdataText::RdataText() : dump_(std::make_unique<Dump>()) { dump_->style.wrap = false; }

RdataText::~RdataText() = default;

bool RdataText::append(std::string& out, std::uint16_t type, std::string_view rdata) {
    const std::string_view text = dump_->text(type, rdata, !is_named(type));
    out += text;
    return !text.empty();
}

bool RdataText::is_valid(std::uint16_t type, std::string_view rdata) {
    constexpr std::uint16_t kApl = 42; // may be empty (RFC 3123)
    const std::string_view text = dump_->text(type, rdata, false);
    return text.empty() ? type == kApl && rdata.empty() : text.back() != ' ';
}

} // namespace reprise::zonebuilder
