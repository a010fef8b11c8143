// RUN: gathernest-opt %s -p "normalize-gather,erase-element-type,bufferize-gather,collapse-dims,lower-to-nest,fold-bounds" --split-input-file

// What was checked is clamped where it is read again: one unsigned minimum behind that of the wrap.
// CHECK: gather.loop check_batch
// CHECK-NOT: arith.minui
// CHECK: scf.if %all_inside
// CHECK: %wrapped{{.*}} = arith.minui %shifted{{.*}}, %index
// CHECK: %last = arith.subi %size{{.*}}, %one : i64
// CHECK-NEXT: %lowered = arith.minui %wrapped{{.*}}, %last : i64
// CHECK-NEXT: %position = arith.index_cast %lowered : i64 to index
func.func @gather(%data: tensor<5x4xf32>, %indices: tensor<3xi64>) -> tensor<3x4xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds error : tensor<5x4xf32>, tensor<3xi64> -> tensor<3x4xf32>
  func.return %r : tensor<3x4xf32>
}

// -----

// Every component has a clamp of its own.
// CHECK: scf.if %all_inside
// CHECK-COUNT-2: arith.minui
func.func @gather(%data: tensor<5x4xf32>, %indices: tensor<3x2xui32>) -> tensor<3xf32> {
  %r = gather.gather_nd %data, %indices batch_dims 0 bounds error : tensor<5x4xf32>, tensor<3x2xui32> -> tensor<3xf32>
  func.return %r : tensor<3xf32>
}

// -----

// Where every value of the index type is inside there is nothing to clamp, and in mode zero there is a select already.
// CHECK-NOT: arith.minui
// CHECK: func.return
func.func @gather(%data: tensor<128x4xf32>, %indices: tensor<3xi8>) -> tensor<3x4xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds error : tensor<128x4xf32>, tensor<3xi8> -> tensor<3x4xf32>
  func.return %r : tensor<3x4xf32>
}

// -----

// CHECK-NOT: arith.minui
// CHECK: func.return
func.func @gather(%data: tensor<5x4xf32>, %indices: tensor<3xi64>) -> tensor<3x4xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds zero : tensor<5x4xf32>, tensor<3xi64> -> tensor<3x4xf32>
  func.return %r : tensor<3x4xf32>
}
