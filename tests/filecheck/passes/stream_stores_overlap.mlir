// RUN: gathernest-opt %s -p "nest,drop-unit-loops,vectorize-inner{lanes=4},stream-stores"

// Ten whole vectors are streamed where out is aligned; the last one, which ends with the row, lies at no such place.
// CHECK: scf.if %is_aligned {
// CHECK: gather.loop inner(
// CHECK: nontemporal = true
// CHECK: } else {
// CHECK: gather.loop inner_cached(
// CHECK: gather.loop inner_rest(
// CHECK-NOT: nontemporal
func.func @gather(%data: tensor<9x42xf32>, %indices: tensor<70xi64>) -> tensor<70x42xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds zero : tensor<9x42xf32>, tensor<70xi64> -> tensor<70x42xf32>
  func.return %r : tensor<70x42xf32>
}
