#include "core/base/bytes.hh"
#include "core/base/text.hh"
#include "zonebuilder/zone/zone.hh"
#include "zonebuilder/zone/zone_folder.hh"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

// Its headers do not say that they are C.
extern "C" {
#include <libzscanner/error.h>
#include <libzscanner/scanner.h>
}

namespace reprise::zonebuilder {
namespace {

constexpr std::uint16_t kInternet = 1;
constexpr std::uint32_t kDefaultTtl =
    3600; ///< servers have defaults of their own; nothing hangs on it

constexpr std::string_view kGenerate = "$GENERATE";

/// A scanner is 200 kB: too large for the stack, and clearing it, which zs_init does, is most of a
/// small zone's cost.
class Scanner {
public:
    explicit Scanner(const NameKey& origin)
        : state_(std::make_unique_for_overwrite<zs_scanner_t>()) {
        ready_ = zs_init(state_.get(), origin.text().c_str(), kInternet, kDefaultTtl) == 0;
    }

    ~Scanner() {
        if (ready_) {
            zs_deinit(state_.get());
        }
    }

    Scanner(const Scanner&) = delete;
    Scanner& operator=(const Scanner&) = delete;
    Scanner(Scanner&&) = delete;
    Scanner& operator=(Scanner&&) = delete;

    /// The scanner keeps no copy of the text.
    bool take(std::string_view text) {
        return ready_ && zs_set_input_string(state_.get(), text.data(), text.size()) == 0;
    }

    /// Goes on to the next record; its state says how that went.
    const zs_scanner_t& next() {
        if (zs_parse_record(state_.get()) != 0) {
            state_->state = ZS_STATE_ERROR;
        }
        return *state_;
    }

    [[nodiscard]] const zs_scanner_t& state() const { return *state_; }

private:
    std::unique_ptr<zs_scanner_t> state_;
    bool ready_ = false;
};

bool looked_into(std::uint16_t type) {
    constexpr std::array kTypes{type::kA,     type::kAaaa,  type::kNs,
                                type::kCname, type::kDname, type::kDnskey};
    return std::ranges::find(kTypes, type) != kTypes.end();
}

/// Of an RRSIG: all but the signer's name and the signature.
constexpr std::size_t kSignatureFixed = 18;

/// What is kept of an RRSIG: who made it where it is over keys; of the many others only what they
/// are over, which fits into a string without memory of its own.
std::size_t signature_part(const zs_scanner_t& state) {
    const bool keys = state.r_data[0] == 0 && state.r_data[1] == type::kDnskey;
    return keys ? kSignatureFixed : 2;
}

/// Expiration and inception of an RRSIG (RFC 4034 section 3.1).
Validity validity_of(const zs_scanner_t& state) {
    Cursor cursor(std::span(state.r_data, kSignatureFixed));
    cursor.skip(8);
    const std::uint32_t until = cursor.u32be();
    return {.from = cursor.u32be(), .until = until};
}

/// The part of a record's data that is kept; nothing for most types.
std::string_view data_of(const zs_scanner_t& state) {
    constexpr std::size_t kKeyId = 3; // all of a DS record but the digest
    const std::string_view data{reinterpret_cast<const char*>(state.r_data), state.r_data_length};
    if (looked_into(state.r_type)) {
        return data;
    }
    if (state.r_type == type::kDs) {
        return data.substr(0, kKeyId);
    }
    const bool signature = state.r_type == type::kRrsig && data.size() > kSignatureFixed;
    return signature ? data.substr(0, signature_part(state)) : std::string_view{};
}

std::optional<ZoneRecord> record_of(const zs_scanner_t& state) {
    const auto owner = NameKey::from_wire(std::span(state.r_owner, state.r_owner_length));
    if (!owner) {
        return std::nullopt;
    }
    ZoneRecord record{.owner = *owner,
                      .type = state.r_type,
                      .ttl = state.r_ttl,
                      .line = state.line_counter,
                      .rdata = {}};
    record.rdata = data_of(state);
    if (state.r_type == type::kRrsig && !record.rdata.empty()) {
        record.valid = validity_of(state);
    }
    return record;
}

/// What BIND alone knows; its own tools write the records out.
bool generates(const zs_scanner_t& state, std::string_view text) {
    if (state.error.code != ZS_BAD_DIRECTIVE) {
        return false;
    }
    for (std::uint64_t line = 1; line < state.line_counter && !text.empty(); ++line) {
        text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
    }
    return same_word(text.substr(0, kGenerate.size()), kGenerate);
}

/// Empty where the record can be kept.
std::string wrong_with(const zs_scanner_t& state, std::string_view text) {
    if (state.state == ZS_STATE_INCLUDE) {
        return "$INCLUDE is not followed; put its records into the file";
    }
    if (state.state != ZS_STATE_DATA) {
        if (generates(state, text)) {
            return "$GENERATE is not followed; write its records out, as named-compilezone does";
        }
        return zs_strerror(state.error.code);
    }
    return state.r_class == kInternet ? "" : "a class other than IN";
}

ZoneFailure failure(const zs_scanner_t& state, std::string why) {
    return {.line = state.line_counter, .why = std::move(why)};
}

} // namespace

std::variant<std::vector<ZoneRecord>, ZoneFailure> scan_zone(std::string_view text,
                                                             const NameKey& origin) {
    // The scanner hands over a record when it meets the end of its line.
    const std::string whole = text.ends_with('\n') ? "" : std::string(text) + '\n';
    Scanner scanner(origin);
    std::vector<ZoneRecord> records;
    if (!scanner.take(whole.empty() ? text : std::string_view(whole))) {
        return failure(scanner.state(), "the scanner does not take it");
    }
    while (scanner.next().state != ZS_STATE_EOF) {
        if (std::string why = wrong_with(scanner.state(), text); !why.empty()) {
            return failure(scanner.state(), std::move(why));
        }
        auto record = record_of(scanner.state());
        if (!record) {
            return failure(scanner.state(), "a name that is too long");
        }
        records.push_back(std::move(*record));
    }
    return records;
}

} // namespace reprise::zonebuilder
