// RUN: gathernest-opt %s -p "canonical,lower-to-nest,fold-bounds,erase-sizes,drop-unit-loops,specialize-inner{bytes=160},stream-stores"

// CHECK: %is_aligned = arith.cmpi eq
// CHECK: scf.if %is_aligned {
// CHECK: vector.store %{{.*}} {alignment = 16 : i64, nontemporal = true}
// CHECK: } else {
// CHECK: gather.loop clear_inner_cached
// CHECK: vector.store %{{.*}} : memref<1x1x?x40xf32>, vector<4xf32>
func.func @gather(%grad: tensor<70x40xf32>, %indices: tensor<70xi64>) -> tensor<9x40xf32> {
  %r = gather.gather_grad %grad, %indices axis 0 batch_dims 0 bounds clip : tensor<70x40xf32>, tensor<70xi64> -> tensor<9x40xf32>
  func.return %r : tensor<9x40xf32>
}
