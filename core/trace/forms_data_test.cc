// Every capture of the shared collection as text and as stream: the same queries, times, addresses,
// ports and connections.
#include "core/testing/shared_data.hh"
#include "core/trace/testing/forms.hh"
#include "core/trace/testing/reader.hh"
#include "core/wire/query.hh"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace reprise::trace {
namespace {

using namespace test; // NOLINT(google-build-using-namespace)

namespace fs = std::filesystem;

bool is_capture(const fs::path& path) {
    const std::string name = path.filename().string();
    return name.find(".pcap") != std::string::npos;
}

/// Queries and closes of a capture; responses are left out.
std::vector<OwnQuery> queries_of(const std::string& path) {
    std::vector<OwnQuery> out;
    Reader reader(path, {.closes = true});
    Query query;
    while (reader.next(query)) {
        if (!query.is_response()) {
            out.push_back(own(query));
        }
    }
    EXPECT_EQ(reader.trouble(), "") << path;
    return out;
}

TEST(FormsOfSharedData, EveryCaptureAsTextAsStream) {
    const fs::path folder = shared_file("");
    if (!fs::exists(folder / "MANIFEST.md")) {
        GTEST_SKIP() << "no shared data at " << folder;
    }
    unsigned captures = 0;
    std::uint64_t queries = 0;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
        if (!entry.is_regular_file() || !is_capture(entry.path())) {
            continue;
        }
        const std::vector<OwnQuery> in = queries_of(entry.path());
        const ReadAll text = read_content(as_text(in));
        EXPECT_EQ(text.trouble + text.refused, "") << entry.path();
        EXPECT_TRUE(text.queries == in) << entry.path();
        const ReadAll stream = read_content(as_stream(text.queries));
        EXPECT_EQ(stream.trouble + stream.refused, "") << entry.path();
        EXPECT_TRUE(stream.queries == in) << entry.path();
        ++captures;
        queries += in.size();
    }
    EXPECT_GE(captures, 34U);
    EXPECT_GE(queries, 14'000U);
}

} // namespace
} // namespace reprise::trace
