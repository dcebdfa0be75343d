#include "mutator/digests/digests.hh"

#include "core/base/error.hh"
#include "core/base/text.hh"
#include "core/dns/message.hh"
#include "core/dns/name.hh"
#include "core/dns/words.hh"
#include "mutator/output/output_file.hh"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <ios>
#include <istream>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::mutator {

namespace {

constexpr std::uint16_t kClassInternet = 1;
constexpr size_t kBeforeSigner = 18; ///< bytes of an RRSIG's data
constexpr size_t kSoaNumbers = 20;

void append(std::vector<std::uint8_t>& out, Bytes bytes) {
    out.insert(out.end(), bytes.begin(), bytes.end());
}

void append_name(std::vector<std::uint8_t>& out, Bytes name) {
    std::ranges::transform(name, std::back_inserter(out), Lower{});
}

/// Types that servers answer as they like.
bool is_special(std::uint16_t type) {
    return type == kTypeAny || type == kTypeAxfr || type == kTypeIxfr;
}

/// Whether an RRSIG's signer is a name without pointers.
bool has_signer(Bytes data) {
    Cursor in(data);
    in.skip(kBeforeSigner);
    return !take_name(in).empty();
}

/// The last labels of a name in wire form.
Bytes last_labels(Bytes name, unsigned count) {
    unsigned labels = 0;
    for (size_t at = 0; name[at] != 0; at += size_t{1} + name[at]) {
        ++labels;
    }
    size_t at = 0;
    for (; labels > count; --labels) {
        at += size_t{1} + name[at];
    }
    return name.subspan(at);
}

} // namespace

std::uint64_t message_hash(Bytes message, std::uint64_t seed) {
    const Bytes rest = message.subspan(std::min<size_t>(message.size(), 2));
    return XXH3_64bits_withSeed(rest.data(), rest.size(), seed);
}

std::uint64_t Contents::hash(Bytes bytes) const {
    return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed_);
}

Contents::Numbers Contents::of(Bytes query, Bytes reply) {
    return read(query, reply).value_or(Numbers{.content = message_hash(reply, seed_)});
}

std::optional<Contents::Numbers> Contents::read(Bytes query, Bytes reply) {
    const auto header = parse_header(reply);
    const auto question = parse_question(reply);
    const auto asked = parse_question(query);
    if (!header || !question || !asked || header->questions != 1 ||
        !same_question(*question, *asked) || !add_records(*header, *question, reply)) {
        return std::nullopt;
    }
    const Bytes& name = question->name;
    const Bytes origin = place_.origin.bytes();
    const bool below = ends_in(name, origin) && name.size() > origin.size();
    const bool whole =
        whole_name_ || question->dns_class != kClassInternet || (!origin.empty() && !below);
    Numbers found;
    if (!whole) {
        scratch_.clear();
        append_name(scratch_, last_labels(name, place_.labels));
        found.place = hash(scratch_);
    }
    scratch_.clear();
    append_little(scratch_, records_);
    append_little(scratch_, header->flags);
    append_little(scratch_,
                  whole || is_special(question->type) ? question->type : std::uint16_t{0});
    append_little(scratch_, question->dns_class);
    append_name(scratch_, whole ? name : Bytes());
    found.content = hash(scratch_);
    return found;
}

bool Contents::add_records(const DnsHeader& header, const DnsQuestion& asked, Bytes reply) {
    records_ = 0;
    opts_ = 0;
    whole_name_ = false;
    Cursor in(reply);
    in.skip(kDnsHeaderSize + asked.raw.size());
    unsigned section = 0;
    for (const unsigned count : {header.answers, header.authorities, header.additionals}) {
        for (unsigned i = 0; i < count; ++i) {
            Name owner;
            if (!add_record(in, reply, section, owner)) {
                return false;
            }
            whole_name_ = whole_name_ || same_name(owner.bytes(), asked.name);
        }
        ++section;
    }
    return opts_ < 2;
}

bool Contents::add_record(Cursor& in, Bytes reply, unsigned section, Name& owner) {
    if (!owner.read(in, reply)) {
        return false;
    }
    const size_t fixed = in.position();
    const std::uint16_t type = in.u16be();
    in.skip(6);
    const std::uint16_t size = in.u16be();
    const size_t data = in.position();
    in.skip(size);
    if (!in.ok()) {
        return false;
    }
    scratch_.clear();
    append_little(scratch_, section);
    append_name(scratch_, owner.bytes());
    append(scratch_, reply.subspan(fixed, 8));
    opts_ += static_cast<unsigned>(type == kTypeOpt);
    if (!add_data(type, reply, data, data + size)) {
        return false;
    }
    records_ += hash(scratch_);
    return true;
}

bool Contents::add_data(std::uint16_t type, Bytes reply, size_t from, size_t end) {
    switch (type) {
    case kTypeNs:
    case kTypeCname:
    case kTypePtr:
    case kTypeDname:
        return add_names(reply, from, end, 1, 0, 0);
    case kTypeSoa:
        return add_names(reply, from, end, 2, 0, kSoaNumbers);
    case kTypeMx:
        return add_names(reply, from, end, 1, 2, 0);
    case kTypeSrv:
        return add_names(reply, from, end, 1, 6, 0);
    default:
        append(scratch_, reply.subspan(from, end - from));
        return type != kTypeRrsig || has_signer(reply.subspan(from, end - from));
    }
}

/// Names of a record's data, with so many bytes before and behind.
bool Contents::add_names(Bytes reply, size_t from, size_t end, unsigned names, size_t before,
                         size_t behind) {
    Cursor in(reply.first(end));
    in.seek(from);
    append(scratch_, in.take(before));
    Name name;
    for (unsigned i = 0; i < names; ++i) {
        if (!name.read(in, reply)) {
            return false;
        }
        append_name(scratch_, name.bytes());
    }
    append(scratch_, in.take(behind));
    return in.ok() && in.left() == 0;
}

namespace {

constexpr std::string_view kMagic = "RPRAHDR1";
constexpr size_t kFixedHeader = 24;
constexpr size_t kSizeAt = 12; ///< where the header's size is
constexpr size_t kRecordHead = 32;
constexpr size_t kSizesAt = 20; ///< in a record's head
constexpr size_t kRowsAtOnce = 4096;

bool fill(std::istream& file, std::span<std::uint8_t> out) {
    file.read(reinterpret_cast<char*>(out.data()), static_cast<std::streamsize>(out.size()));
    return static_cast<bool>(file);
}

/// An answers file, from its first record on.
std::ifstream open_answers(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::array<std::uint8_t, kFixedHeader> header{};
    Cursor in(header);
    if (!fill(file, header) || !std::ranges::equal(in.take(kMagic.size()), bytes_of(kMagic))) {
        throw Error(fmt::format("{} is no answers file; give one that ends in .ra", path));
    }
    in.seek(kSizeAt);
    file.seekg(in.little<std::uint32_t>());
    return file;
}

/// Calls take(row, query, reply) for the records, up to what is no whole one; the row says which
/// record it is.
void each_answer(std::istream& file, auto&& take) {
    std::array<std::uint8_t, kRecordHead> head{};
    std::vector<std::uint8_t> body;
    auto at = static_cast<std::uint64_t>(file.tellg());
    while (fill(file, head)) {
        Cursor in(head);
        const Digest row{.sequence = in.little<std::uint64_t>(), .at = at};
        in.seek(kSizesAt);
        const auto query = in.little<std::uint32_t>();
        const auto reply = in.little<std::uint32_t>();
        if (in.little<std::uint32_t>() != 0 || query == 0 || query > kMaxMessage ||
            reply > kMaxMessage) {
            return;
        }
        body.resize((size_t{query} + reply + 7) / 8 * 8);
        if (!fill(file, body)) {
            return;
        }
        take(row, Bytes(body).first(query), Bytes(body).subspan(query, reply));
        at += head.size() + body.size();
    }
}

/// The row with the numbers of its messages.
Digest digest_of(Digest row, Bytes query, Bytes reply, Contents& contents, std::uint64_t seed) {
    row.query = message_hash(query, seed);
    row.reply_size = static_cast<std::uint16_t>(reply.size());
    if (reply.empty()) {
        return row;
    }
    row.reply = message_hash(reply, seed);
    const auto [content, place] = contents.of(query, reply);
    row.content = content;
    row.place = place;
    if (const auto header = parse_header(reply)) {
        row.flags = header->flags;
        row.answers = header->answers;
        row.authorities = header->authorities;
    }
    return row;
}

Name origin_of(const std::string& text) {
    if (text.empty()) {
        return {};
    }
    auto name = parse_name(text);
    if (!name) {
        throw UsageError(fmt::format("--origin {} is no domain name", text));
    }
    name->lower();
    return *name;
}

} // namespace

int run_digests(const DigestsOptions& options) {
    Contents contents({.origin = origin_of(options.origin), .labels = options.labels},
                      options.seed);
    std::ifstream answers = open_answers(options.answers); // before anything is written
    OutputFile output(options.output);
    const DigestsHeader header{.seed = options.seed};
    output.write({reinterpret_cast<const char*>(&header), sizeof header});
    std::vector<Digest> rows;
    const auto write = [&] {
        output.write({reinterpret_cast<const char*>(rows.data()), rows.size() * sizeof(Digest)});
        rows.clear();
        check_interrupt();
    };
    each_answer(answers, [&](const Digest& row, Bytes query, Bytes reply) {
        rows.push_back(digest_of(row, query, reply, contents, options.seed));
        if (rows.size() == kRowsAtOnce) {
            write();
        }
    });
    write();
    output.finish();
    return 0;
}

} // namespace reprise::mutator
