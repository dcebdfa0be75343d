#include "core/rules/message/message_editor.hh"

#include "core/base/bytes.hh"
#include "core/dns/message.hh"
#include "core/dns/name.hh"
#include "core/rules/message/message_layout.hh"
#include "core/trace/batch.hh"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace reprise::rules {
namespace {

constexpr size_t kFlagsAt = 2;
constexpr size_t kAdditionalsAt = 10;
constexpr size_t kOptionHeader = 4;
constexpr std::uint8_t kDnssecOk = 0x80; ///< of the record's seventh byte (RFC 3225)

/// Root owner, type 41, size 1232 (the DNS flag day's), nothing else.
constexpr std::array<std::uint8_t, kOptSize> kNewOpt{0, 0, 41, 0x04, 0xd0};

void copy_to(std::uint8_t* at, Bytes bytes) {
    if (!bytes.empty()) {
        std::memcpy(at, bytes.data(), bytes.size());
    }
}

/// Replaces `size` bytes from `begin`.
Edit splice(Batch& batch, Bytes& message, size_t begin, size_t size, Bytes by) {
    const Bytes old = message;
    if (size == by.size()) {
        if (std::ranges::equal(old.subspan(begin, size), by)) {
            return Edit::kUnchanged;
        }
        copy_to(writable(message).data() + begin, by);
        return Edit::kChanged;
    }
    if (old.size() - size + by.size() > kMaxMessage) {
        return Edit::kTooLong;
    }
    const std::span<std::uint8_t> made = batch.allocate(old.size() - size + by.size());
    copy_to(made.data(), old.first(begin));
    copy_to(made.data() + begin, by);
    copy_to(made.data() + begin + by.size(), old.subspan(begin + size));
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

/// Where no option is to change: the record's fixed part, in place.
Edit edit_fields(std::uint8_t* opt, const OptChange& change) {
    std::array<std::uint8_t, kOptSize> old;
    std::memcpy(old.data(), opt, kOptSize);
    set_fields(opt, change);
    return std::memcmp(old.data(), opt, kOptSize) != 0 ? Edit::kChanged : Edit::kUnchanged;
}

const OptionChange* find_change(const OptChange& change, std::uint16_t code) {
    const auto found = std::ranges::find(change.options, code, &OptionChange::code);
    return found != change.options.end() ? &*found : nullptr;
}

bool has_option(Bytes opt, std::uint16_t code) {
    Cursor in(opt);
    in.skip(kOptSize);
    while (in.left() > 0) {
        const std::uint16_t found = in.u16be();
        in.skip(in.u16be());
        if (found == code) {
            return true;
        }
    }
    return false;
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

void OptEditor::append(Bytes bytes) { opt_.insert(opt_.end(), bytes.begin(), bytes.end()); }

void OptEditor::append_option(std::uint16_t code, Bytes value) {
    std::array<std::uint8_t, kOptionHeader> header{};
    store16(header.data(), code);
    store16(header.data() + 2, static_cast<std::uint16_t>(value.size()));
    append(header);
    append(value);
}

/// The old options with what changes in them, then the new ones. False where the old are malformed.
bool OptEditor::compose_options(Bytes old, const OptChange& change) {
    Cursor in(old);
    in.skip(kOptSize);
    while (in.left() > 0) {
        const size_t begin = in.position();
        const std::uint16_t code = in.u16be();
        in.skip(in.u16be());
        if (!in.ok()) {
            return false;
        }
        if (code == kOptionPadding && change.padding_block != 0) {
            continue;
        }
        const OptionChange* found = find_change(change, code);
        if (found == nullptr) {
            append(old.subspan(begin, in.position() - begin));
        } else if (!found->remove && !has_option(opt_, code)) {
            append_option(code, found->value);
        }
    }
    for (const OptionChange& option : change.options) {
        if (!option.remove && !has_option(opt_, option.code)) {
            append_option(option.code, option.value);
        }
    }
    return true;
}

bool OptEditor::compose(Bytes old, const OptChange& change) {
    opt_.clear();
    append(old.first(kOptSize));
    set_fields(opt_.data(), change);
    return compose_options(old, change);
}

void OptEditor::append_padding(size_t size_without, size_t block) {
    const size_t bare = size_without + kOptionHeader;
    const size_t padding = (block - bare % block) % block;
    append_option(kOptionPadding, {});
    store16(opt_.data() + opt_.size() - 2, static_cast<std::uint16_t>(padding));
    opt_.resize(opt_.size() + padding); // zeros (RFC 7830)
}

Edit OptEditor::apply(Batch& batch, Bytes& message, const MessageLayout& layout,
                      const OptChange& change) {
    if (!layout.whole) {
        return Edit::kMalformed;
    }
    const bool there = layout.opt != 0;
    if (there && change.options.empty() && change.padding_block == 0) {
        return edit_fields(writable(message).data() + layout.opt,
                           change); // even with malformed options
    }
    const size_t begin = there ? layout.opt : layout.place;
    const size_t size = there ? layout.opt_end - layout.opt : 0;
    const Bytes old = there ? message.subspan(begin, size) : Bytes(kNewOpt);
    if (!compose(old, change)) {
        return Edit::kMalformed;
    }
    if (change.padding_block != 0) {
        append_padding(message.size() - size + opt_.size(), change.padding_block);
    }
    if (layout.pinned && opt_.size() != size) {
        return Edit::kCompressed;
    }
    if (opt_.size() > kMaxMessage) {
        return Edit::kTooLong;
    }
    store16(opt_.data() + kOptSize - 2, static_cast<std::uint16_t>(opt_.size() - kOptSize));
    const Edit done = splice(batch, message, begin, size, opt_);
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
