#include "querier/testing/result_reader.hh"

#include "core/base/error.hh"
#include "core/wire/result_file.hh"

#include <xxhash.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <ios>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::querier::testing {
namespace {

constexpr size_t kFooter = 32;

std::vector<std::uint8_t> slurp(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    if (!in) {
        throw Error(path + ": cannot be read");
    }
    std::vector<std::uint8_t> bytes(std::filesystem::file_size(path));
    in.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    bytes.resize(static_cast<size_t>(in.gcount()));
    return bytes;
}

std::string_view text(Bytes bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

struct Parts {
    Bytes records;
    Bytes json;
    std::uint64_t count = 0;
    bool whole = false;
};

/// Splits a file into its parts; without a right footer everything behind the header is records.
Parts split(Bytes file, std::string_view magic) {
    Cursor header(file);
    header.skip(12);
    const Bytes body = file.subspan(header.little<std::uint32_t>());
    Parts parts{.records = body, .json = {}, .count = 0, .whole = false};
    if (body.size() < kFooter || text(body.last(8)) != magic) {
        return parts;
    }
    Cursor footer(body.last(kFooter));
    parts.count = footer.little<std::uint64_t>();
    const auto sum = footer.little<std::uint64_t>();
    const auto json_size = footer.little<std::uint32_t>();
    parts.records = body.first(body.size() - kFooter - json_size);
    parts.json = body.subspan(parts.records.size(), json_size);
    parts.whole = sum == XXH3_64bits(parts.records.data(), parts.records.size());
    return parts;
}

} // namespace

RqContent read_rq(const std::string& path) {
    const std::vector<std::uint8_t> file = slurp(path);
    const Parts parts = split(file, "RPRQEND1");
    RqContent content;
    content.records.resize(parts.records.size() / sizeof(RqRecord));
    if (!content.records.empty()) {
        std::memcpy(content.records.data(), parts.records.data(),
                    content.records.size() * sizeof(RqRecord));
    }
    content.statistics = text(parts.json);
    content.whole = parts.whole && parts.count == content.records.size();
    if (!std::ranges::is_sorted(content.records, {}, &RqRecord::sequence)) { // mostly they are
        std::ranges::sort(content.records, {}, &RqRecord::sequence);
    }
    return content;
}

std::vector<AnswerContent> read_ra(const std::string& path) {
    const std::vector<std::uint8_t> file = slurp(path);
    const Parts parts = split(file, "RPRAEND1");
    std::vector<AnswerContent> answers;
    Cursor in(parts.records);
    while (in.ok() && in.left() > 0) {
        AnswerContent answer;
        answer.sequence = in.little<std::uint64_t>();
        answer.time = in.little<std::int64_t>();
        in.skip(4);
        const auto query_size = in.little<std::uint32_t>();
        const auto reply_size = in.little<std::uint32_t>();
        in.skip(4);
        const Bytes query = in.take(query_size);
        const Bytes reply = in.take(reply_size);
        answer.query.assign(query.begin(), query.end());
        answer.reply.assign(reply.begin(), reply.end());
        in.skip((8 - (query_size + reply_size) % 8) % 8);
        answers.push_back(std::move(answer));
    }
    if (!parts.whole || !in.ok() || parts.count != answers.size()) {
        throw Error(path + ": not whole");
    }
    std::ranges::sort(answers, {}, &AnswerContent::sequence);
    return answers;
}

} // namespace reprise::querier::testing
