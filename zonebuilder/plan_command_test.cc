#include "core/base/address.hh"
#include "core/base/error.hh"
#include "zonebuilder/commands.hh"
#include "zonebuilder/plan/plan.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace reprise::zonebuilder {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kApex = "@ 60 SOA m. h. 1 2 3 4 5\n@ NS ns\nns A 10.0.0.1\n";

/// A folder of zones and a folder for the plan, gone with the test.
class PlanCommand : public ::testing::Test {
protected:
    PlanCommand() {
        fs::create_directories(options_.folder);
        write("com.zone", kApex);
    }

    ~PlanCommand() override { fs::remove_all(base_); }

    void write(const std::string& name, const std::string& text) const {
        std::ofstream(fs::path(options_.folder) / name) << text;
    }

    [[nodiscard]] std::string written(const std::string& name) const {
        std::ifstream file(fs::path(options_.output) / name);
        return {std::istreambuf_iterator<char>(file), {}};
    }

    [[nodiscard]] bool exists(const std::string& name) const {
        return fs::exists(fs::path(options_.output) / name);
    }

    /// The error's text, or "done".
    [[nodiscard]] std::string run() const {
        try {
            run_plan(options_);
        } catch (const Error& error) {
            return error.what();
        }
        return "done";
    }

    fs::path base_ =
        fs::temp_directory_path() / fs::path("plan_command_test." + std::to_string(getpid()));
    PlanOptions options_{.folder = (base_ / "zones").string(), .output = (base_ / "plan").string()};
};

TEST_F(PlanCommand, WritesEverything) {
    EXPECT_EQ(run(), "done");
    EXPECT_THAT(written("map.tsv"), HasSubstr("oqda\t10.0.0.1\t1\n"));
    EXPECT_THAT(written("plan.json"), HasSubstr("\"schema\": 1"));
    EXPECT_TRUE(exists("root.hints"));
    EXPECT_TRUE(exists("root.key"));
}

TEST_F(PlanCommand, LeavesOutZonesThatTheServerRefused) {
    write("net.zone", "$ORIGIN net.\n@ 60 SOA m. h. 1 2 3 4 5\n@ NS ns\nns A 10.0.0.2\n");
    write("com.zone", "$ORIGIN com.\n@ 60 SOA m. h. 1 2 3 4 5\n@ NS ns\nns A 10.0.0.1\n");
    options_.refused = (base_ / "refused.json").string();
    std::ofstream(options_.refused)
        << R"([{"zone":"com.","file":"com.zone","line":2,"why":"out of range"}])";
    EXPECT_THAT(run(), HasSubstr("1 zone does not load: com.zone line 2: out of range; "));
    options_.skip_bad = true;
    EXPECT_EQ(run(), "done");
    EXPECT_THAT(written("plan.json"), HasSubstr("out of range"));
    EXPECT_THAT(written("map.tsv"), Not(HasSubstr("10.0.0.1")));
    EXPECT_THAT(written("map.tsv"), HasSubstr("10.0.0.2"));
    std::ofstream(options_.refused) << "[7]";
    EXPECT_THAT(run(), HasSubstr("cannot be read"));
}

TEST_F(PlanCommand, RefusesViewsThatNeedMoreMemoryThanThereIs) {
    Plan plan;
    plan.groups.resize(4'000);
    plan.colors = 3;
    PlanSettings settings;
    settings.form = Form::kPaper;
    EXPECT_NO_THROW(check_memory(plan, settings, 40'000'000'000));
    try {
        check_memory(plan, settings, 23'900'000'000);
        FAIL();
    } catch (const Error& error) {
        EXPECT_STREQ(error.what(), "4000 views of BIND need about 37 GB of memory, and this host "
                                   "has 23 GB available; use --form colored, which needs 3");
    }
    settings.engine = Engine::kNsd;
    EXPECT_NO_THROW(check_memory(plan, settings, 1));
}

TEST_F(PlanCommand, BadZonesAreNamedOrLeftOut) {
    write("a.zone", "@ 60 SOA m. h. 1 2 3 4 5\n@ NS ns\nw A 1.2.3\n");
    write("b.zone", "");
    const std::string error = run();
    EXPECT_THAT(error, HasSubstr("2 zones do not load: a.zone line 3: "));
    EXPECT_THAT(error, HasSubstr("b.zone: no records"));
    EXPECT_THAT(error, HasSubstr("--skip-bad keeps the rest"));
    EXPECT_EQ(error.find('\n'), std::string::npos);
    options_.skip_bad = true;
    EXPECT_EQ(run(), "done");
    EXPECT_THAT(written("plan.json"), HasSubstr("\"file\": \"b.zone\""));
}

TEST_F(PlanCommand, OnlyBadZonesAreNoPlan) {
    fs::remove(fs::path(options_.folder) / "com.zone");
    write("b.zone", "");
    options_.skip_bad = true;
    EXPECT_THAT(run(), HasSubstr("1 zone does not load"));
}

TEST_F(PlanCommand, ManyBadZonesAreCounted) {
    for (char c = 'a'; c < 'i'; ++c) {
        write(std::string(1, c) + ".zone", "");
    }
    EXPECT_THAT(run(), HasSubstr("8 zones do not load"));
    EXPECT_THAT(run(), HasSubstr("and 3 more"));
}

TEST_F(PlanCommand, MissingFilesAndFolders) {
    write("zones.json", R"({"schema":1,"zones":[{"name":"org.","file":"none.zone"}]})");
    EXPECT_THAT(run(), HasSubstr("none.zone: No such file or directory"));
    write("zones.json", "{");
    EXPECT_THAT(run(), HasSubstr("zones.json: [json.exception.parse_error"));
    write("zones.json", R"({"schema":1,"zones":[]})");
    EXPECT_THAT(run(), HasSubstr("no zone in"));
    options_.folder += "/none";
    EXPECT_THAT(run(), HasSubstr("is not a folder"));
}

TEST_F(PlanCommand, UnwritableOutput) {
    write("file", "");
    options_.output = options_.folder + "/file/plan";
    EXPECT_THAT(run(), HasSubstr("give -o another folder"));
}

TEST_F(PlanCommand, OnlyRegularFilesAreRead) {
    const fs::path pipe = fs::path(options_.folder) / "pipe.zone";
    ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
    fs::create_symlink("loop.zone", fs::path(options_.folder) / "loop.zone");
    fs::create_directory(fs::path(options_.folder) / "folder.zone");
    write("packed.zone", "\x1f\x8b ");
    const std::string error = run();
    EXPECT_THAT(error, HasSubstr("3 zones do not load"));
    EXPECT_THAT(error, HasSubstr("pipe.zone: not a regular file"));
    EXPECT_THAT(error, HasSubstr("loop.zone: Too many levels"));
    EXPECT_THAT(error, HasSubstr("packed.zone: it is compressed"));
}

TEST_F(PlanCommand, NamesOfFilesThatNoReportTakes) {
    write("a\xff.zone", kApex);
    write("b\nc.zone", kApex);
    const std::string error = run();
    EXPECT_THAT(error, HasSubstr("a?.zone: its name"));
    EXPECT_THAT(error, HasSubstr("b?c.zone: its name"));
    options_.skip_bad = true;
    EXPECT_EQ(run(), "done");
}

TEST_F(PlanCommand, AListThatLeadsNowhereIsNotIgnored) {
    fs::create_symlink("gone.json", fs::path(options_.folder) / "zones.json");
    EXPECT_THAT(run(), HasSubstr("cannot read"));
}

TEST_F(PlanCommand, FailuresLeaveNoPlan) {
    EXPECT_EQ(run(), "done");
    fs::remove(fs::path(options_.output) / "root.key");
    fs::create_directories(fs::path(options_.output) / "root.key" / "in the way");
    EXPECT_THAT(run(), HasSubstr("cannot write"));
    EXPECT_FALSE(exists("plan.json"));
    EXPECT_FALSE(exists("root.key.part"));
    fs::create_directories(fs::path(options_.output) / "plan.json" / "in the way");
    EXPECT_THAT(run(), HasSubstr("cannot clear"));
}

TEST_F(PlanCommand, NsdRefusesNamesBelowDnamesAndPatterns) {
    write("net.zone", std::string(kApex) + "d DNAME x.y.\na.d A 10.0.0.1\n");
    write("o%s.zone", kApex);
    options_.settings.engine = Engine::kNsd;
    const std::string error = run();
    EXPECT_THAT(error, HasSubstr("net.zone: NSD refuses it for 1 records below a DNAME"));
    EXPECT_THAT(error, HasSubstr("o%s.zone: NSD takes %"));
}

TEST_F(PlanCommand, HashedNamesMayLieBelowADname) {
    write("net.zone", std::string(kApex) +
                          "d DNAME x.y.\n2vptu5timamqttgl4luu9kg21e0aor3s.d NSEC3 1 0 0 - "
                          "35mthgpgcu1qg68fab165klnsnk3dpvl NS SOA DNAME\n");
    options_.settings.engine = Engine::kNsd;
    EXPECT_EQ(run(), "done");
}

TEST_F(PlanCommand, NsdRefusesRecordsOutsideTheirZone) {
    write("net.zone", std::string(kApex) + "www.example.org. A 10.0.0.1\n");
    EXPECT_EQ(run(), "done");
    options_.settings.engine = Engine::kNsd;
    EXPECT_THAT(run(), HasSubstr("net.zone: NSD refuses it for 1 records outside the zone"));
}

TEST_F(PlanCommand, OneAddressWithTwoContents) {
    write("other.zone", "com. 60 SOA m. h. 1 2 3 4 5\ncom. NS ns\nns A 10.0.0.1\n");
    EXPECT_THAT(run(), HasSubstr("other.zone: 10.0.0.1 serves this zone from com.zone already"));
}

TEST(PlanSettings, Defaults) {
    const PlanSettings settings = plan_settings({.folder = "x", .output = "y"});
    EXPECT_EQ(settings.resolvers.size(), 1U);
    EXPECT_EQ(settings.resolvers[0].v6.value_or(IpAddress{}).text(), "fd00:198:19:fe::1");
    EXPECT_EQ(settings.meta4.text(), "198.18.128.0/17");
    EXPECT_TRUE(settings.root_addresses);
}

std::string refusal(PlanOptions options) {
    options.folder = "zones";
    try {
        plan_settings(options);
    } catch (const UsageError& error) {
        return error.what();
    }
    return "taken";
}

TEST(PlanSettings, SaysWhatIsWrong) {
    EXPECT_THAT(refusal({.meta4 = "fd00::/8"}),
                HasSubstr("--meta4 fd00::/8 is not an IPv4 prefix"));
    EXPECT_THAT(refusal({.meta6 = "x"}), HasSubstr("--meta6 x is not an IPv6 prefix"));
    EXPECT_THAT(refusal({.reserved = {"10.0.0.1/8"}}), HasSubstr("--reserved 10.0.0.1/8"));
    EXPECT_THAT(refusal({.resolvers = {"1.1.1.1,2.2.2.2"}}), HasSubstr("ADDR4[,ADDR6]"));
    EXPECT_THAT(refusal({.resolvers = {"1.1.1.1,"}}), ::testing::StrEq("taken"));
    EXPECT_THAT(refusal({.resolvers = {""}}), HasSubstr("--resolver is empty"));
    EXPECT_THAT(refusal({.resolvers = {"198.18.128.1"}}), HasSubstr("of a resolver"));
    EXPECT_THAT(refusal({.meta4 = "127.0.0.0/8"}), HasSubstr("is loopback"));
    EXPECT_THAT(refusal({.resolvers = {"x"}}), HasSubstr("ADDR4[,ADDR6]"));
    EXPECT_THAT(refusal({.resolvers = {"1.1.1.1", "1.1.1.1"}}), HasSubstr("given twice"));
    EXPECT_THAT(refusal({.settings = {.engine = Engine::kNsd, .form = Form::kPaper}}),
                HasSubstr("--engine nsd"));
}

} // namespace
} // namespace reprise::zonebuilder
