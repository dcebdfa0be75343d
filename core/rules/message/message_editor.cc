#include "core/rules/message/message_editor.hh"

#include "core/base/bytes.hh"
#include "core/dns/message.hh"
#include "core/dns/name.hh"
#include "core/trace/batch.hh"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace reprise::rules {
namespace {

constexpr std::uint16_t kTypeSig = 24;
constexpr std::uint16_t kTypeNaptr = 35;
constexpr std::uint16_t kTypeTsig = 250;

/// Record data that may hold compressed names: bytes before them, and how many there are. RFC 3597
/// section 4 closes the list; TSIG and TKEY name an algorithm.
struct DataNames {
    std::uint16_t type;
    std::uint8_t skip;
    std::uint8_t names;
};

constexpr std::array kDataNames{
    DataNames{2, 0, 1},  DataNames{3, 0, 1},   DataNames{4, 0, 1},   DataNames{5, 0, 1},
    DataNames{6, 0, 2},  DataNames{7, 0, 1},   DataNames{8, 0, 1},   DataNames{9, 0, 1},
    DataNames{12, 0, 1}, DataNames{14, 0, 2},  DataNames{15, 2, 1},  DataNames{17, 0, 2},
    DataNames{18, 2, 1}, DataNames{21, 2, 1},  DataNames{24, 18, 1}, DataNames{26, 2, 2},
    DataNames{30, 0, 1}, DataNames{33, 6, 1},  DataNames{35, 4, 1},  DataNames{36, 2, 1},
    DataNames{39, 0, 1}, DataNames{249, 0, 1}, DataNames{250, 0, 1},
};

class LayoutParser {
public:
    explicit LayoutParser(Bytes message) : message_(message), in_(message) {}

    MessageLayout parse() {
        if (message_.size() < kDnsHeaderSize || message_.size() > kMaxMessage) {
            return out_;
        }
        in_.skip(4); // id, flags
        const unsigned asked = in_.u16be();
        const unsigned others = in_.u16be();
        const unsigned authorities = in_.u16be();
        const unsigned additionals = in_.u16be();
        out_.header = true;
        out_.asks = asked > 0;
        out_.whole = questions(asked) && records(others, false) && records(authorities, false) &&
                     records(additionals, true);
        out_.end = in_.position();
        if (!out_.is_signed) {
            out_.place = out_.end;
        }
        return out_;
    }

private:
    /// A possibly compressed name. A pointer must lead back (RFC 1035); it is not followed.
    bool name(Cursor& in) {
        const size_t begin = in.position();
        while (in.position() - begin < Name::kMost) {
            const unsigned length = in.u8();
            if (length == 0) {
                return in.ok();
            }
            if (length >= 0xc0U) {
                const size_t target = (length & 0x3fU) << 8U | in.u8();
                out_.compressed = true;
                points_ahead_ = points_ahead_ || target >= (out_.opt != 0 ? out_.opt : record_);
                return in.ok() && target >= kDnsHeaderSize && target < begin;
            }
            if (length > 63) {
                return false;
            }
            in.skip(length);
        }
        return false;
    }

    bool questions(unsigned count) {
        if (count > 0) {
            const Bytes first = take_name(in_); // which rules change: without pointers
            in_.skip(4);
            if (first.empty() || !in_.ok()) {
                return false;
            }
            out_.name_end = kDnsHeaderSize + first.size();
        }
        for (unsigned i = 1; i < count; ++i) {
            if (!name(in_)) {
                return false;
            }
            in_.skip(4);
        }
        return in_.ok();
    }

    bool data_names(std::uint16_t type, size_t begin, size_t end) {
        const auto found = std::ranges::find(kDataNames, type, &DataNames::type);
        if (found == kDataNames.end() || begin == end) { // an UPDATE's deletion has no data
            return true;
        }
        Cursor in(message_.first(end));
        in.seek(begin);
        in.skip(found->skip);
        for (int strings = type == kTypeNaptr ? 3 : 0; strings > 0; --strings) {
            in.skip(in.u8());
        }
        bool good = in.ok();
        for (unsigned i = 0; i < found->names && good; ++i) {
            good = name(in);
        }
        return good;
    }

    bool record(bool additional, bool last) {
        record_ = in_.position();
        points_ahead_ = false;
        if (!name(in_)) {
            return false;
        }
        const std::uint16_t type = in_.u16be();
        in_.skip(6); // class, time to live
        const Bytes data = in_.take(in_.u16be());
        const size_t end = in_.position();
        if (!in_.ok()) {
            return false;
        }
        if (additional && type == kTypeOpt) {
            const bool good = out_.opt == 0 && message_[record_] == 0;
            out_.opt = record_;
            out_.opt_end = end;
            return good;
        }
        out_.stray_opt = out_.stray_opt || type == kTypeOpt;
        if (!data_names(type, end - data.size(), end)) {
            return false;
        }
        // TSIG (RFC 8945), or a SIG that covers no type (RFC 2931).
        const bool signs = type == kTypeTsig ||
                           (type == kTypeSig && data.size() >= 2 && data[0] == 0 && data[1] == 0);
        const bool signature = additional && last && signs;
        if (signature) {
            out_.is_signed = true;
            out_.place = record_;
        }
        out_.pinned = out_.pinned || (points_ahead_ && (signature || out_.opt != 0));
        return true;
    }

    bool records(unsigned count, bool additional) {
        for (unsigned i = 0; i < count; ++i) {
            if (!record(additional, i + 1 == count)) {
                return false;
            }
        }
        return true;
    }

    Bytes message_;
    Cursor in_;
    MessageLayout out_;
    size_t record_ = 0; ///< where the present record begins
    /// A pointer of this record leads to what an edit of OPT would move.
    bool points_ahead_ = false;
};

} // namespace

MessageLayout parse_layout(Bytes message) { return LayoutParser(message).parse(); }

namespace {

constexpr size_t kFlagsAt = 2;
constexpr size_t kAdditionalsAt = 10;
constexpr size_t kOptionHeader = 4;
constexpr std::uint8_t kDnssecOk = 0x80; ///< of the record's seventh byte (RFC 3225)

/// Root owner, type 41, size 1232 (the DNS flag day's), nothing else.
constexpr std::array<std::uint8_t, kOptSize> kNewOpt{0, 0, 41, 0x04, 0xd0};

/// Replaces `size` bytes from `begin`.
Edit splice(Batch& batch, Bytes& message, size_t begin, size_t size, Bytes by) {
    const Bytes old = message;
    if (size == by.size()) {
        if (std::ranges::equal(old.subspan(begin, size), by)) {
            return Edit::kUnchanged;
        }
        copy_bytes(by, writable(message).data() + begin);
        return Edit::kChanged;
    }
    if (old.size() - size + by.size() > kMaxMessage) {
        return Edit::kTooLong;
    }
    const std::span<std::uint8_t> made = batch.allocate(old.size() - size + by.size());
    auto* at = copy_bytes(old.first(begin), made.data());
    at = copy_bytes(by, at);
    copy_bytes(old.subspan(begin + size), at);
    message = made;
    return Edit::kChanged;
}

void count_additional(Bytes message, int more) {
    std::uint8_t* at = writable(message).data() + kAdditionalsAt;
    store16(at, static_cast<std::uint16_t>(load16(at) + more));
}

void set_fields(std::uint8_t* opt, const OptChange& change) {
    if (change.udp_size) {
        store16(opt + 3, *change.udp_size);
    }
    if (change.version) {
        opt[6] = *change.version;
    }
    if (change.dnssec_ok) {
        opt[7] =
            static_cast<std::uint8_t>((opt[7] & ~kDnssecOk) | (*change.dnssec_ok ? kDnssecOk : 0));
    }
}

void append(std::vector<std::uint8_t>& out, Bytes bytes) {
    out.insert(out.end(), bytes.begin(), bytes.end());
}

void append_option(std::vector<std::uint8_t>& out, std::uint16_t code, Bytes value) {
    append16(out, code);
    append16(out, value.size());
    append(out, value);
}

/// The old options with what changes in them, then the new ones. False where the old are malformed.
bool append_options(std::vector<std::uint8_t>& out, Bytes old, const OptChange& change) {
    unsigned placed = 0; // a bit for each of the changes
    const auto place = [&](const OptionChange& option) {
        const unsigned bit = 1U << static_cast<unsigned>(&option - change.options.data());
        if (!option.remove && (placed & bit) == 0) {
            append_option(out, option.code, option.value);
        }
        placed |= bit;
    };
    Cursor in(old);
    in.skip(kOptSize);
    while (in.left() > 0) {
        const size_t begin = in.position();
        const std::uint16_t code = in.u16be();
        in.skip(in.u16be());
        if (!in.ok()) {
            return false;
        }
        const auto found = std::ranges::find(change.options, code, &OptionChange::code);
        if (found != change.options.end()) {
            place(*found);
        } else if (code != kOptionPadding || change.padding_block == 0) {
            append(out, old.subspan(begin, in.position() - begin));
        }
    }
    std::ranges::for_each(change.options, place);
    return true;
}

void append_padding(std::vector<std::uint8_t>& out, size_t size_without, size_t block) {
    const size_t bare = size_without + kOptionHeader;
    const size_t padding = (block - bare % block) % block;
    append16(out, kOptionPadding);
    append16(out, padding);
    out.resize(out.size() + padding); // zeros (RFC 7830)
}

} // namespace

Edit set_flags(Bytes message, std::uint16_t mask, std::uint16_t value) {
    if (message.size() < kDnsHeaderSize) {
        return Edit::kMalformed;
    }
    const unsigned old = load16(message.data() + kFlagsAt);
    const unsigned flags = (old & ~unsigned{mask}) | (value & mask);
    store16(writable(message).data() + kFlagsAt, static_cast<std::uint16_t>(flags));
    return flags != old ? Edit::kChanged : Edit::kUnchanged;
}

Edit set_type(Bytes message, const MessageLayout& layout, std::uint16_t type) {
    if (layout.name_end == 0) {
        return layout.header && !layout.asks ? Edit::kNoQuestion : Edit::kMalformed;
    }
    std::uint8_t* at = writable(message).data() + layout.name_end;
    if (load16(at) == type) {
        return Edit::kUnchanged;
    }
    store16(at, type);
    return Edit::kChanged;
}

Bytes question_name(Bytes message, const MessageLayout& layout) {
    return layout.name_end == 0 ? Bytes()
                                : message.subspan(kDnsHeaderSize, layout.name_end - kDnsHeaderSize);
}

Edit set_name(Batch& batch, Bytes& message, const MessageLayout& layout, Bytes name) {
    if (!layout.whole) {
        return Edit::kMalformed;
    }
    if (!layout.asks) {
        return Edit::kNoQuestion;
    }
    if (name.empty()) {
        return Edit::kTooLong;
    }
    const Bytes old = question_name(message, layout);
    if (layout.compressed && !same_name(old, name)) {
        return Edit::kCompressed;
    }
    return splice(batch, message, kDnsHeaderSize, old.size(), name);
}

Edit set_opt(Batch& batch, Bytes& message, const MessageLayout& layout, const OptChange& change,
             std::vector<std::uint8_t>& scratch) {
    if (!layout.whole) {
        return Edit::kMalformed;
    }
    const bool there = layout.opt != 0;
    const size_t begin = there ? layout.opt : layout.place;
    const size_t size = there ? layout.opt_end - layout.opt : 0;
    const Bytes old = there ? message.subspan(begin, size) : Bytes(kNewOpt);
    scratch.clear();
    append(scratch, old.first(kOptSize));
    set_fields(scratch.data(), change);
    if (there && change.options.empty() && change.padding_block == 0) {
        return splice(batch, message, begin, kOptSize, scratch); // even with malformed options
    }
    if (!append_options(scratch, old, change)) {
        return Edit::kMalformed;
    }
    if (change.padding_block != 0) {
        append_padding(scratch, message.size() - size + scratch.size(), change.padding_block);
    }
    if (layout.pinned && scratch.size() != size) {
        return Edit::kCompressed;
    }
    if (scratch.size() > kMaxMessage) {
        return Edit::kTooLong;
    }
    store16(scratch.data() + kOptSize - 2, scratch.size() - kOptSize);
    const Edit done = splice(batch, message, begin, size, scratch);
    if (!there && done == Edit::kChanged) {
        count_additional(message, 1);
    }
    return done;
}

Edit remove_opt(Batch& batch, Bytes& message, const MessageLayout& layout) {
    if (!layout.whole) {
        return Edit::kMalformed;
    }
    if (layout.opt == 0) {
        return Edit::kUnchanged;
    }
    if (layout.pinned) {
        return Edit::kCompressed;
    }
    const Edit done = splice(batch, message, layout.opt, layout.opt_end - layout.opt, {});
    count_additional(message, -1);
    return done;
}

} // namespace reprise::rules
