#pragma once
// A trace query by query, as tests look at it.

#include "core/trace/batch.hh"
#include "core/trace/feed.hh"
#include "core/trace/reassembly/options.hh"
#include "core/wire/query.hh"

#include <cstddef>
#include <cstdint>
#include <string>

namespace reprise::trace::test {

class Reader {
public:
    explicit Reader(const std::string& path, const ReaderOptions& options = {})
        : feed_(path, options) {}

    /// It is good until the next call; false at the end.
    bool next(Query& query) {
        if (at_ == batch_.queries.size()) {
            at_ = 0;
            if (!feed_.read(batch_)) {
                return false;
            }
        }
        query = batch_.queries[at_++];
        return true;
    }

    [[nodiscard]] Counters counters() const { return feed_.counters(); }

    [[nodiscard]] std::uint64_t packets() const { return feed_.packets(); }

    [[nodiscard]] const std::string& trouble() const { return feed_.end().trouble; }

    [[nodiscard]] double share_read() const { return feed_.share_read(); }

    [[nodiscard]] std::string description() const { return feed_.end().description; }

private:
    Feed feed_;
    Batch batch_;
    size_t at_ = 0;
};

} // namespace reprise::trace::test
