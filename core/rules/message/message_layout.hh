#pragma once
// Where the parts of a query lie, found in one pass that trusts no length. Rules edit by these
// offsets; after an edit that moves bytes the message is parsed anew.

#include "core/base/bytes.hh"

#include <cstddef>
#include <cstdint>

namespace reprise::rules {

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

} // namespace reprise::rules
