#pragma once
// Edits of a query's bytes. Each takes a message and its layout and leaves the edited message in
// `message`: in place where the length stays, else in new memory of the batch; a message that
// cannot be edited stays as it was. After kChanged the layout is out of date.
//
// What an edit does not name keeps its bytes: the id, other questions, records, bytes behind the
// last record. Pointers of other records (RFC 1035 section 4.1.4) are never adjusted: where an edit
// would make one wrong, the message is kept and the result is kCompressed. Queries with such
// records are updates, notifications and transfers, and few.

#include "core/base/bytes.hh"
#include "core/trace/batch.hh"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace reprise::rules {

// Where the parts of a query lie, found in one pass that trusts no length. Rules edit by these
// offsets; after an edit that moves bytes the message is parsed anew.

inline constexpr std::uint16_t kOptionNsid = 3;     ///< RFC 5001
inline constexpr std::uint16_t kOptionSubnet = 8;   ///< RFC 7871, ECS
inline constexpr std::uint16_t kOptionCookie = 10;  ///< RFC 7873
inline constexpr std::uint16_t kOptionPadding = 12; ///< RFC 7830
inline constexpr size_t kOptSize = 11;              ///< an OPT record without options

/// Bytes from the beginning of the message; 0 = not there.
struct MessageLayout {
    size_t name_end = 0; ///< behind the first question's name, which begins at 12; the type follows
    size_t opt = 0;
    size_t opt_end = 0;
    size_t place = 0; ///< where an OPT record is to be added: before a signature, or behind all
    size_t end = 0;   ///< behind all that the header announces; further bytes are nobody's

    bool header = false; ///< 12 bytes are there
    bool asks = false;   ///< the header announces a question
    /// All that the header announces is there, with at most one OPT record, and names are well
    /// formed. Only then do `opt`, `place` and what follows mean anything.
    bool whole = false;
    bool is_signed = false;  ///< TSIG or SIG(0), which must stay last
    bool compressed = false; ///< a name behind the first question's uses a pointer
    bool pinned = false;     ///< a pointer would go wrong where OPT's extent changes
    bool stray_opt = false;  ///< an OPT record outside the additional section
};

/// At most 65,535 bytes are a message; longer ones have an empty layout.
MessageLayout parse_layout(Bytes message);

/// What became of a message.
enum class Edit : std::uint8_t {
    kMalformed,  ///< cannot be parsed as far as the edit needs
    kNoQuestion, ///< well formed, but asks nothing
    kTooLong,    ///< a name over 255 bytes, or a message over 65,535
    kCompressed, ///< a pointer of another record would go wrong
    kUnchanged,  ///< it was as wanted
    kChanged,
};

/// Replaces the bits of `mask` in the header's flags. Needs no more than a header.
Edit set_flags(Bytes message, std::uint16_t mask, std::uint16_t value);

/// The type of the first question.
Edit set_type(Bytes message, const MessageLayout& layout, std::uint16_t type);

/// The first question's name with its root label; empty where there is none.
Bytes question_name(Bytes message, const MessageLayout& layout);

/// The first question's name; an empty one is too long. Where another record is compressed only the
/// case may change: its owner may be the question's name.
Edit set_name(Batch& batch, Bytes& message, const MessageLayout& layout, Bytes name);

/// An EDNS option to be there once, or not at all.
struct OptionChange {
    std::uint16_t code = 0;
    bool remove = false;
    std::vector<std::uint8_t> value;
};

/// What is to be set in an OPT record; the rest stays.
struct OptChange {
    std::optional<std::uint16_t> udp_size;
    std::optional<bool> dnssec_ok;
    std::optional<std::uint8_t> version;
    std::vector<OptionChange> options; ///< codes differ; padding only to be removed
    size_t padding_block = 0; ///< pad the message to a multiple (RFC 8467); 0 = leave padding alone
};

/// Changes the OPT record, or adds one: size 1232, version 0, no flags, with the changes, at the
/// layout's place. Options keep their order; new ones follow, padding is last. `scratch` is memory
/// for composing, best kept between calls.
Edit set_opt(Batch& batch, Bytes& message, const MessageLayout& layout, const OptChange& change,
             std::vector<std::uint8_t>& scratch);

/// Without an OPT record.
Edit remove_opt(Batch& batch, Bytes& message, const MessageLayout& layout);

} // namespace reprise::rules
