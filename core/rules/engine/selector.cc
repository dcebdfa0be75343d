#include "core/rules/engine/selector.hh"

#include "core/base/random.hh"
#include "core/base/trace_time.hh"
#include "core/dns/message.hh"
#include "core/dns/name.hh"
#include "core/rules/engine/arguments.hh"
#include "core/wire/query.hh"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::rules {

std::uint64_t mixed_seed(std::uint64_t seed, std::uint64_t use) {
    return mix_bits(seed + (use + 1) * kGoldenStep);
}

std::uint64_t source_key(const IpAddress& address, std::uint64_t key) {
    return XXH3_64bits_withSeed(address.bytes.data(), address.size(), key);
}

namespace {

bool among(const std::vector<Prefix>& prefixes, const IpAddress& address) {
    return prefixes.empty() ||
           std::ranges::any_of(prefixes, [&](const Prefix& one) { return one.holds(address); });
}

/// Adds one value to those of a condition, which begins with any.
void allow(std::uint32_t& bits, std::uint32_t any, std::uint32_t one) {
    bits = bits == any ? one : bits | one;
}

void read_limit(Arguments& arguments, std::string_view key, TraceTime& limit) {
    const auto text = arguments.get_text(key);
    if (!text) {
        return;
    }
    const auto value = TraceTime::parse(*text);
    if (!value) {
        arguments.fail(key, fmt::format("\"{}\" is not a time; write seconds from the first query, "
                                        "seconds since 1970, or 2016-10-06T11:00:00Z",
                                        *text));
    }
    limit = *value;
}

} // namespace

std::optional<Filter> Filter::make(Arguments& arguments) {
    std::optional<Filter> filter(std::in_place);
    filter->read_time(arguments);
    filter->sources_ = get_prefixes(arguments, "where.source");
    for (const Prefix& source : filter->sources_) {
        allow(filter->families_, kAny, bit(source.address.family));
    }
    filter->destinations_ = get_prefixes(arguments, "where.destination");
    for (const std::string& text : arguments.get_list("where.transport")) {
        allow(filter->transports_, kAny, bit(transport_value(arguments, "where.transport", text)));
    }
    filter->read_message(arguments);
    const bool any = std::ranges::any_of(arguments.list(), [](const Argument& argument) {
        return argument.key.starts_with("where.");
    });
    return any ? filter : std::nullopt;
}

void Filter::read_time(Arguments& arguments) {
    read_limit(arguments, "where.from", from_);
    read_limit(arguments, "where.until", until_);
    on_time_ = arguments.has("where.from") || arguments.has("where.until");
    const bool both = arguments.has("where.from") && arguments.has("where.until");
    if (both && from_.absolute == until_.absolute && from_.value >= until_.value) {
        arguments.fail("where.until", "is not later than where.from; no query would match");
    }
}

void Filter::read_message(Arguments& arguments) {
    for (const std::string& text : arguments.get_list("where.type")) {
        types_.push_back(type_value(arguments, "where.type", text));
    }
    names_ = get_names(arguments, "where.name", true);
    for (const std::string& text : arguments.get_list("where.opcode")) {
        allow(opcodes_, kAny, bit(opcode_value(arguments, "where.opcode", text)));
    }
    for (const std::string& text : arguments.get_list("where.flags")) {
        flags_ |= flag_value(arguments, "where.flags", text);
    }
    edns_ = arguments.get_switch("where.edns");
    dnssec_ok_ = arguments.get_switch("where.do");
    if (edns_ == false && dnssec_ok_ == true) {
        arguments.fail("where.do", "no query without EDNS has the DO bit; drop where.edns=off");
    }
    on_message_ = !types_.empty() || !names_.empty() || opcodes_ != kAny || flags_ != 0 ||
                  edns_.has_value() || dnssec_ok_.has_value();
}

void Filter::begin(Nanoseconds first) {
    from_ = {.absolute = true, .value = from_.in_trace(first)};
    until_ = {.absolute = true, .value = until_.in_trace(first)};
}

// The cheap conditions come first.
bool Filter::matches(const Query& query) const {
    const bool outside = may_match(query) && query.time >= from_.value &&
                         query.time < until_.value && among(sources_, query.source.address) &&
                         among(destinations_, query.destination.address);
    return outside && (!on_message_ || message_holds(query.message));
}

bool Filter::message_holds(Bytes message) const {
    const auto header = parse_header(message);
    if (!header || (header->flags & flags_) != flags_) {
        return false;
    }
    if (!types_.empty() || !names_.empty()) {
        const auto question = parse_question(message);
        const bool good =
            question &&
            (types_.empty() || std::ranges::find(types_, question->type) != types_.end()) &&
            (names_.empty() || std::ranges::any_of(names_, [&](const Name& suffix) {
                 return ends_in(question->name, suffix.bytes());
             }));
        if (!good) {
            return false;
        }
    }
    if (!edns_ && !dnssec_ok_) {
        return true;
    }
    const auto edns = parse_edns(message);
    return edns_.value_or(edns.has_value()) == edns.has_value() &&
           (!dnssec_ok_ || *dnssec_ok_ == (edns && edns->dnssec_ok));
}

namespace {

/// Uses of a rule's seed here, apart from the rule's own.
constexpr std::uint64_t kSourceUse = 0x5e1ec7;
constexpr std::uint64_t kQueryUse = 0x5e1ec8;

constexpr std::uint8_t kTaken = 1;
constexpr std::uint8_t kLeft = 2;

std::uint64_t key_of(const Endpoint& source, std::uint64_t connection) {
    return source_key(source.address, mixed_seed(connection, std::uint64_t{source.port}));
}

} // namespace

void ConnectionChoices::add(const Endpoint& source, std::uint64_t connection, std::uint8_t bits) {
    if (connection == 0) {
        return;
    }
    choices_.advance(0);
    const std::uint64_t key = key_of(source, connection);
    auto* const known = choices_.find(key);
    auto& choice = known != nullptr ? *known : choices_.add(key);
    choice = static_cast<std::uint8_t>(choice.value_or(0) | bits);
}

std::optional<std::uint8_t> ConnectionChoices::take(const Endpoint& source,
                                                    std::uint64_t connection) {
    auto* const known = choices_.find(key_of(source, connection));
    return known != nullptr ? std::exchange(*known, std::nullopt) : std::nullopt;
}

Selector::Selector(Arguments& arguments, std::uint64_t seed, Closes closes, bool by_source)
    : filter_(Filter::make(arguments)), closes_(closes), key_(mixed_seed(seed, kSourceUse)),
      random_(mixed_seed(seed, kQueryUse)) {
    share_ = arguments.get_number("share", 0, 100).value_or(100) / 100;
    const auto by = arguments.get_word("by", {"query", "source"});
    by_source_ = by ? *by == "source" : by_source;
    limit_ = limit_of(share_);
    inverted_ = share_ > 0.5;
    stretch_ = 1 / (inverted_ ? 1 - share_ : share_);
    draw_next();
    takes_all_ = !filter_ && share_ >= 1;
    same_for_connection_ =
        (share_ >= 1 || share_ <= 0 || by_source_) && (!filter_ || filter_->same_for_connection());
    remembers_ = (closes == Closes::kAny || closes == Closes::kAll) && !same_for_connection_;
    quick_ = filter_ && filter_->timeless() && !remembers_;
}

bool Selector::chooses(const Query& query) {
    if (query.is_close() && closes_ == Closes::kNone) {
        return false;
    }
    return remembers_ ? takes_with_connection(query) : takes_by_itself(query);
}

bool Selector::takes_with_connection(const Query& query) {
    if (query.is_close()) {
        if (const auto known = choices_.take(query.source, query.connection)) {
            return closes_ == Closes::kAny ? (*known & kTaken) != 0 : (*known & kLeft) == 0;
        }
        return takes_by_itself(query);
    }
    const bool taken = takes_by_itself(query);
    choices_.add(query.source, query.connection, taken ? kTaken : kLeft);
    return taken;
}

bool Selector::passes(const Query& query) {
    if (filter_ && !std::exchange(begun_, true)) {
        filter_->begin(query.time);
    }
    return among(only_, query.source.address) && (!filter_ || filter_->matches(query));
}

bool Selector::in_share(const Query& query) {
    if (share_ >= 1 || share_ <= 0) {
        return share_ >= 1;
    }
    if (by_source_) {
        return source_key(query.source.address, key_) < limit_;
    }
    return !query.is_close() && next_in_share();
}

// Two places may fall on one query where stretches are no whole numbers; the second then moves to
// the query behind it, which stays within the stretch's share.
bool Selector::next_in_share() {
    const bool rarer = next_ < static_cast<double>(passed_ + 1);
    ++passed_;
    if (rarer) {
        ++drawn_;
        draw_next();
    }
    return rarer != inverted_;
}

void Selector::draw_next() { next_ = (static_cast<double>(drawn_) + random_.unit()) * stretch_; }

} // namespace reprise::rules
