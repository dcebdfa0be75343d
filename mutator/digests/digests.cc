#include "mutator/digests/digests.hh"

#include "core/base/bytes.hh"
#include "core/base/error.hh"
#include "core/dns/message.hh"
#include "core/dns/name.hh"
#include "mutator/digests/content.hh"
#include "mutator/output/output_file.hh"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <ios>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::mutator {
namespace {

constexpr std::string_view kMagic = "RPRAHDR1";
constexpr size_t kFixedHeader = 24;
constexpr size_t kSizeAt = 12; ///< where the header's size is
constexpr size_t kRecordHead = 32;
constexpr size_t kSizesAt = 20; ///< in a record's head
constexpr size_t kRowsAtOnce = 4096;

/// The records of an answers file, one after the other.
class AnswersFile {
public:
    explicit AnswersFile(const std::string& path) : path_(path), file_(path, std::ios::binary) {
        std::array<std::uint8_t, kFixedHeader> header{};
        if (!fill(header)) {
            refuse();
        }
        Cursor in(header);
        const Bytes magic = in.take(kMagic.size());
        in.seek(kSizeAt);
        const auto size = in.little<std::uint32_t>();
        if (!std::ranges::equal(magic, kMagic, {}, {},
                                [](char c) { return static_cast<std::uint8_t>(c); })) {
            refuse();
        }
        file_.seekg(size);
    }

    /// False at the end, and at what is no whole record.
    bool next() {
        std::array<std::uint8_t, kRecordHead> head{};
        if (!fill(head)) {
            return false;
        }
        Cursor in(head);
        in.seek(kSizesAt);
        query_ = in.little<std::uint32_t>();
        const auto reply = in.little<std::uint32_t>();
        if (in.little<std::uint32_t>() != 0 || query_ > kMaxMessage || reply > kMaxMessage) {
            return false;
        }
        const size_t size = size_t{query_} + reply;
        body_.resize((size + 7) / 8 * 8);
        if (!fill(body_)) {
            return false;
        }
        body_.resize(size);
        return true;
    }

    [[nodiscard]] Bytes query() const { return Bytes(body_).first(query_); }

    [[nodiscard]] Bytes reply() const { return Bytes(body_).subspan(query_); }

private:
    bool fill(std::span<std::uint8_t> out) {
        file_.read(reinterpret_cast<char*>(out.data()), static_cast<std::streamsize>(out.size()));
        return static_cast<bool>(file_);
    }

    [[noreturn]] void refuse() const {
        throw Error(fmt::format("{} is no answers file; give one that ends in .ra", path_));
    }

    std::string path_;
    std::ifstream file_;
    std::uint32_t query_ = 0;
    std::vector<std::uint8_t> body_;
};

Digest digest_of(Bytes query, Bytes reply, Contents& contents, std::uint64_t seed) {
    Digest row{.query = message_hash(query, seed),
               .reply_size = static_cast<std::uint16_t>(reply.size())};
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
    AnswersFile answers(options.answers);
    OutputFile output(options.output);
    const DigestsHeader header{.seed = options.seed};
    output.write({reinterpret_cast<const char*>(&header), sizeof header});
    std::vector<Digest> rows;
    const auto write = [&] {
        output.write({reinterpret_cast<const char*>(rows.data()), rows.size() * sizeof(Digest)});
        rows.clear();
        check_interrupt();
    };
    while (answers.next()) {
        rows.push_back(digest_of(answers.query(), answers.reply(), contents, options.seed));
        if (rows.size() == kRowsAtOnce) {
            write();
        }
    }
    write();
    output.finish();
    return 0;
}

} // namespace reprise::mutator
