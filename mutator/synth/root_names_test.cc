#include "core/base/random.hh"
#include "core/dns/words.hh"
#include "mutator/synth/query_names.hh"
#include "mutator/synth/root_names.hh"
#include "mutator/synth/synth_options.hh"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace reprise::mutator {
namespace {

const std::vector<std::string> kTlds{"com", "net", "org", "arpa", "de", "home"};

std::string_view last_label(std::string_view wire) {
    std::string_view label;
    while (!wire.empty()) {
        const auto size = static_cast<size_t>(static_cast<unsigned char>(wire.front()));
        label = wire.substr(1, size);
        wire.remove_prefix(size + 1);
    }
    return label;
}

// Junk never exists, the rest always does; "home" is delegated here, so it does not leak.
TEST(RootNames, JunkIsWhatDoesNotExist) {
    const Mix types{{kTypeA, 60},  {28, 20},     {kTypeNs, 5}, {kTypePtr, 4},
                    {kTypeSrv, 3}, {kTypeDs, 3}, {255, 2}};
    const std::unordered_set<std::string> known(kTlds.begin(), kTlds.end());
    RootNames names(kTlds, types, 0.5);
    Random random(1);
    QueryName name;
    for (const auto& item : types) {
        for (int i = 0; i < 3000; ++i) {
            const bool junk = names.make(item.value, random, name);
            const std::string tld(last_label(name.bytes()));
            ASSERT_EQ(junk, !tld.empty() && !known.contains(tld)) << tld;
            ASSERT_LE(name.bytes().size(), 254U);
        }
    }
}

TEST(RootNames, TheShareOfJunkIsWhatWasAsked) {
    const Mix types{{kTypeA, 57}, {28, 23}, {kTypeNs, 5}, {kTypeDs, 3}};
    for (const double share : {0.0, 0.1, 0.63, 0.95, 1.0}) {
        RootNames names(kTlds, types, share);
        Random random(2);
        QueryName name;
        double junk = 0;
        for (const auto& item : types) {
            const int draws = static_cast<int>(item.weight) * 1000;
            for (int i = 0; i < draws; ++i) {
                junk += names.make(item.value, random, name) ? 1 : 0;
            }
        }
        EXPECT_NEAR(junk / 88'000, share, 0.006);
    }
}

TEST(RootNames, OneTopLevelDomainIsEnough) {
    RootNames names({"example"}, {{kTypeA, 1}}, 0.5);
    Random random(3);
    QueryName name;
    for (int i = 0; i < 1000; ++i) {
        if (!names.make(kTypeA, random, name)) {
            ASSERT_EQ(last_label(name.bytes()), "example");
        }
    }
}

} // namespace
} // namespace reprise::mutator
