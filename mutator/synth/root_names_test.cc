#include "core/base/random.hh"
#include "core/dns/name.hh"
#include "core/dns/words.hh"
#include "mutator/synth/names.hh"
#include "mutator/synth/synth_options.hh"

#include <gtest/gtest.h>

#include <string>
#include <unordered_set>
#include <vector>

namespace reprise::mutator {
namespace {

const std::vector<std::string> kDelegated{"com", "net", "org", "arpa", "de", "home"};

std::string last_label(Bytes wire) {
    Cursor in(wire);
    Bytes label;
    while (in.left() > 0) {
        label = in.take(in.u8());
    }
    return {label.begin(), label.end()};
}

// Junk never exists, the rest always does; "home" is delegated here, so it does not leak.
TEST(RootNames, JunkIsWhatDoesNotExist) {
    const Mix types{{kTypeA, 60},  {28, 20},     {kTypeNs, 5}, {kTypePtr, 4},
                    {kTypeSrv, 3}, {kTypeDs, 3}, {255, 2}};
    const std::unordered_set<std::string> known(kDelegated.begin(), kDelegated.end());
    const MakeName make = root_names(kDelegated, types, 0.5);
    Random random(1);
    Name name;
    for (const auto& item : types) {
        for (int i = 0; i < 3000; ++i) {
            const bool junk = make(0, item.value, random, name);
            const std::string tld = last_label(name.bytes());
            ASSERT_EQ(junk, !tld.empty() && !known.contains(tld)) << tld;
            ASSERT_LE(name.bytes().size(), 254U);
        }
    }
}

TEST(RootNames, TheShareOfJunkIsWhatWasAsked) {
    const Mix types{{kTypeA, 57}, {28, 23}, {kTypeNs, 5}, {kTypeDs, 3}};
    for (const double share : {0.0, 0.1, 0.63, 0.95, 1.0}) {
        const MakeName make = root_names(kDelegated, types, share);
        Random random(2);
        Name name;
        double junk = 0;
        for (const auto& item : types) {
            const int draws = static_cast<int>(item.weight) * 400;
            for (int i = 0; i < draws; ++i) {
                junk += make(0, item.value, random, name) ? 1 : 0;
            }
        }
        EXPECT_NEAR(junk / 35'200, share, 0.006);
    }
}

TEST(RootNames, OneTopLevelDomainIsEnough) {
    const MakeName make = root_names({"example"}, {{kTypeA, 1}}, 0.5);
    Random random(3);
    Name name;
    for (int i = 0; i < 1000; ++i) {
        if (!make(0, kTypeA, random, name)) {
            ASSERT_EQ(last_label(name.bytes()), "example");
        }
    }
}

} // namespace
} // namespace reprise::mutator
