#include "core/rules/message/message_layout.hh"

#include "core/base/bytes.hh"
#include "core/dns/message.hh"
#include "core/dns/name.hh"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

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

    MessageLayout parse();

private:
    bool questions(unsigned count);
    bool records(unsigned count, bool additional);
    bool record(bool additional, bool last);
    bool first_name();
    bool name(Cursor& in);
    bool data_names(std::uint16_t type, size_t begin, size_t end);
    bool take_opt(size_t begin, size_t end);
    [[nodiscard]] bool is_signature(std::uint16_t type, Bytes data) const;

    Bytes message_;
    Cursor in_;
    MessageLayout out_;
    size_t record_ = 0; ///< where the present record begins
    bool points_ahead_ =
        false; ///< a pointer of this record leads to what an edit of OPT would move
};

/// A possibly compressed name. A pointer must lead back (RFC 1035); it is not followed.
bool LayoutParser::name(Cursor& in) {
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

/// The name that rules change: without pointers.
bool LayoutParser::first_name() {
    const Bytes name = take_name(in_);
    in_.skip(4);
    if (name.empty() || !in_.ok()) {
        return false;
    }
    out_.name_end = kDnsHeaderSize + name.size();
    return true;
}

bool LayoutParser::questions(unsigned count) {
    if (count > 0 && !first_name()) {
        return false;
    }
    for (unsigned i = 1; i < count; ++i) {
        if (!name(in_)) {
            return false;
        }
        in_.skip(4);
    }
    return in_.ok();
}

bool LayoutParser::data_names(std::uint16_t type, size_t begin, size_t end) {
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

bool LayoutParser::take_opt(size_t begin, size_t end) {
    const bool good = out_.opt == 0 && message_[begin] == 0;
    out_.opt = begin;
    out_.opt_end = end;
    return good;
}

/// TSIG (RFC 8945), or a SIG that covers no type (RFC 2931).
bool LayoutParser::is_signature(std::uint16_t type, Bytes data) const {
    return type == kTypeTsig ||
           (type == kTypeSig && data.size() >= 2 && data[0] == 0 && data[1] == 0);
}

bool LayoutParser::record(bool additional, bool last) {
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
        return take_opt(record_, end);
    }
    out_.stray_opt = out_.stray_opt || type == kTypeOpt;
    if (!data_names(type, end - data.size(), end)) {
        return false;
    }
    const bool signature = additional && last && is_signature(type, data);
    if (signature) {
        out_.is_signed = true;
        out_.place = record_;
    }
    out_.pinned = out_.pinned || (points_ahead_ && (signature || out_.opt != 0));
    return true;
}

bool LayoutParser::records(unsigned count, bool additional) {
    for (unsigned i = 0; i < count; ++i) {
        if (!record(additional, i + 1 == count)) {
            return false;
        }
    }
    return true;
}

MessageLayout LayoutParser::parse() {
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

} // namespace

MessageLayout parse_layout(Bytes message) { return LayoutParser(message).parse(); }

} // namespace reprise::rules
